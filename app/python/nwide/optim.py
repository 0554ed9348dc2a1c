"""Optimisers of N models, each with its own learning rate and other hyperparameters. The elementwise ones use the
same kernels as `workbench train`."""

import functools
import math
import operator

import torch
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from . import _core
from .errors import fail
from .module import WideModule
from .tracing import expect_cpu

# By name: hyperparameters (name, default, minimum, maximum) and states (name, the option that needs
# it).
_TABLE = {**_core.optimizers(), "muon": ([("lr", 1e-3, 0, 1e300), ("weight_decay", 0.1, 0, 1e300), ("momentum", 0.95, 0, 1),
                                          ("nesterov", 1, 0, 1)], [("momentum_buffer", "")])}
_OTHER_STEPS = ("amsgrad", "maximize", "centered")  # options of torch's optimisers that are not supported


def _elementwise(operation):
    """A method that computes `operation` of each model's number and one for all, or that of the other PerModel, list or tensor."""
    def method(self, other):
        others = other.tolist() if hasattr(other, "tolist") else other
        try:
            others = PerModel(others).values if hasattr(others, "__len__") else (float(others),) * len(self)
        except (TypeError, ValueError):
            return NotImplemented
        if len(others) != len(self):
            fail("nw.optim", "hyperparameter", f"{len(others)} values", f"{len(self)}, one for each model", "one number for all")
        return PerModel(map(operation, self.values, others))
    return method


class PerModel:
    """One number for each model in place of torch.optim's one. Supports the arithmetic of schedulers; uses that need a single
    number, such as a comparison, raise Error."""

    def __init__(self, values):
        self.values = tuple(float(v) for v in values)

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values)

    def __getitem__(self, i):
        return self.values[i]

    def __repr__(self):
        return f"PerModel({list(self.values)})"

    def __format__(self, spec):
        """Each number as `spec` says; without one, as `str`."""
        return f"[{', '.join(format(v, spec) for v in self.values)}]" if spec else str(self)

    __add__ = __radd__ = _elementwise(operator.add)
    __mul__ = __rmul__ = _elementwise(operator.mul)
    __sub__, __rsub__ = _elementwise(operator.sub), _elementwise(lambda a, b: b - a)
    __truediv__, __rtruediv__ = _elementwise(operator.truediv), _elementwise(lambda a, b: b / a)
    __pow__ = _elementwise(operator.pow)
    __array_priority__ = 1000  # NumPy's numbers and arrays leave operators to this class

    def __neg__(self):
        return PerModel(-v for v in self.values)

    def __eq__(self, other):
        return isinstance(other, PerModel) and self.values == other.values

    def __hash__(self):
        return hash(self.values)

    def _refused(self, *_):
        fail("nw.optim", "hyperparameter", f"{len(self)} models' values", "one number for all, as ReduceLROnPlateau takes",
             "a scheduler that multiplies, such as LambdaLR")

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        """A function of PyTorch that is given one: torch.optim steps with a state of `nw.optim`, or a tensor is on its left."""
        fail("nw.optim", "hyperparameter", "a number for each model", f"one number for all, as torch's {function.__name__} takes",
             "nw.optim, or the tensor to the right of it")

    __lt__ = __le__ = __gt__ = __ge__ = __float__ = __bool__ = _refused


torch.serialization.add_safe_globals([PerModel])  # torch.load takes states with it by default, as it holds numbers alone


class _Optimizer(torch.optim.Optimizer):
    """`wide`: a wide module, whose parameters are stepped in place; `params`: some of them, or torch's groups of them.
    Every hyperparameter is a number, or one for each model."""

    _name = ""
    _split = {}  # an argument to the kernel's names, such as betas

    def __init__(self, wide, params, values, for_all=None):
        """`values`: hyperparameters that may be one for each model; `for_all`: those that are one for all."""
        if not isinstance(wide, WideModule):
            fail("nw.optim", "module", type(wide).__name__, "a wide module", "nw.compile, or torch.optim")
        self.n, self._own = wide.n, dict(wide.named_parameters())
        self._of_all = wide._held_once()
        self._ready = {}  # by group: the numbers that `_ready_for` was asked for, and its answer
        names, states = _TABLE[self._name]
        self._hyperparameters, self._states = names, states
        defaults = {key: self._value(key, v) for key, v in values.items()}
        self._keys = tuple(values)
        self._watched = (*self._keys, *_OTHER_STEPS)
        super().__init__(wide.parameters() if params is None else params, {**defaults, **(for_all or {})})

    def _value(self, name, value):
        """Checks a hyperparameter's value: a number, or one for each model."""
        if name in self._split:
            if not hasattr(value, "__len__") or len(value) != len(self._split[name]):
                fail("nw.optim", name, value, f"{len(self._split[name])} numbers", "(0.9, 0.999)")
            return tuple(self._value(part, v) for part, v in zip(self._split[name], value, strict=True))
        if hasattr(value, "tolist"):  # a tensor, NumPy's number or array
            value = value.tolist()
        if not isinstance(value, (int, float)):
            try:
                value = PerModel(value)
            except (TypeError, ValueError):
                fail("nw.optim", name, repr(value), "a number, or one for each model", "a list of numbers")
        self._check(value, next(row for row in self._hyperparameters if row[0] == name))
        return value

    def _check(self, value, hyperparameter):
        name, _, low, high = hyperparameter
        if isinstance(value, PerModel) and len(value) != self.n:
            fail("nw.optim", name, f"{len(value)} values", f"{self.n}, one for each model", "one number for all")
        for v in value if isinstance(value, PerModel) else (value,):
            if not low <= v <= high:
                fail("nw.optim", name, v, f"{low:g} to {high:g}", "another value")

    def __getstate__(self):
        own = {name: getattr(self, name) for name in ("n", "_own", "_of_all", "_hyperparameters", "_states", "_keys", "_watched")}
        return {**super().__getstate__(), **own, "_ready": {}}

    def add_param_group(self, group):
        parameters = group["params"]
        group = {**group, "params": [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)}
        names = {id(p): name for name, p in self._own.items()}
        for p in group["params"]:
            p = p[1] if isinstance(p, tuple) else p  # a pair (name, parameter)
            if id(p) not in names:  # its first dimension may not be the models of this wide module
                fail("nw.optim", "params", f"{tuple(p.shape)} that the wide module has not", "some of its parameters",
                     "torch.optim for others")
            expect_cpu("nw.optim", names[id(p)], [p], 'nw.train(..., device="cuda:0") to train on a GPU')
            self._look_at(names[id(p)], p)
        super().add_param_group({k: self._value(k, v) if k in self._keys else v for k, v in group.items()})

    def _look_at(self, name, parameter):
        """Raises Error for a parameter that this optimiser cannot step."""

    def _values(self, group):
        """A group's hyperparameters by the kernel's names. A list that the user wrote into the group becomes PerModel."""
        for key in _OTHER_STEPS:
            if group.get(key):
                fail("nw.optim", key, group[key], "a group without it", "torch.optim over wide.parameters()")
        values = {}
        for key in self._keys:
            parts = group[key] if key in self._split else (group[key],)
            if not isinstance(parts, tuple) or not all(isinstance(part, (int, float, PerModel)) for part in parts):
                group[key] = self._value(key, group[key])
                parts = group[key] if key in self._split else (group[key],)
            values.update(zip(self._split.get(key, (key,)), parts))
        return values

    def _ready_for(self, index, group):
        """What a step needs of a group's numbers: which states are kept, their names, whether each depends on a number, and the
        numbers, `[N, H]` or `[1, H]` where all models have the same. Schedulers and users write into groups: new numbers are
        checked as at the beginning."""
        known = self._ready.get(index)
        if known and all(map(operator.is_, map(group.get, self._watched), known[0])):
            return known[1]
        values = self._values(group)
        made_of = [values[name] for name, *_ in self._hyperparameters]
        for value, hyperparameter in zip(made_of, self._hyperparameters):
            self._check(value, hyperparameter)
        rows = self.n if any(isinstance(v, PerModel) for v in made_of) else 1
        columns = [v.values if isinstance(v, PerModel) else (float(v),) * rows for v in made_of]
        kept = [not with_ or bool(_any(values[with_])) for _, with_ in self._states]
        ready = (kept, [name for (name, _), keeps in zip(self._states, kept) if keeps], all(with_ for _, with_ in self._states),
                 torch.tensor(columns, dtype=torch.float64).T.contiguous())
        self._ready[index] = tuple(map(group.get, self._watched)), ready
        return ready

    def load_state_dict(self, state_dict):
        """Loads a state_dict of this class or of torch's optimiser with this name."""
        asked = {key for group in state_dict["param_groups"] for key in _OTHER_STEPS if group.get(key)}
        if asked:
            fail("nw.optim", sorted(asked)[0], "a state made with it", "one made without", "torch.optim over wide.parameters()")
        super().load_state_dict(state_dict)

    def zero_grad(self, set_to_none=True):
        """As torch.optim's, without its record for the profiler, which takes longer than the rest."""
        if not set_to_none:
            return super().zero_grad(set_to_none=False)
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None

    def _observed(self):
        """Whether hooks or a profiler wait for the next step. Else torch's wrapper is left out, which takes longer than the step
        of a small module."""
        return (self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks or _global_optimizer_post_hooks
                or len(_global_optimizer_pre_hooks) > 1  # one is the package's own, which ignores this class
                or torch.autograd.profiler._is_profiler_enabled)

    def _step(self, closure=None):
        """As torch.optim's: `closure` computes the loss anew, which is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        # Checks all groups before the first step: a wrong number raises Error.
        ready = [self._ready_for(index, group) for index, group in enumerate(self.param_groups)]
        shared = {id(p) for p in self._of_all}
        for group, (kept, names, conditional, hyper) in zip(self.param_groups, ready):
            parameters, gradients, states, steps = [], [], [], []
            for p in group["params"]:
                gradient = p.grad
                if gradient is None:
                    continue
                state = self.state[p]
                state["step"] = step = int(state.get("step", 0)) + 1
                if names and conditional:  # the kernel's first step is the one that makes the state, as torch's
                    step = 1 if state.get(names[0]) is None else max(step, 2)
                for name in names:
                    if state.get(name) is None:
                        state[name] = torch.zeros_like(p, memory_format=torch.contiguous_format, requires_grad=False)
                parameters.append(p)
                gradients.append(gradient)
                states.append([state[name] for name in names])
                steps.append(step)
            if parameters:
                self._step_group(group, parameters, gradients, states, steps, [id(p) in shared for p in parameters], kept, hyper)
        return loss

    @functools.wraps(_step, assigned=("__doc__",))
    def step(self, *args, **kwargs):
        # torch wraps the step of a class that overrides this one and calls it.
        step = _wrapped_step if type(self).step is _Optimizer.step and self._observed() else _Optimizer._step
        return step(self, *args, **kwargs)

    step.hooked = True  # torch does not wrap it again

    def _step_group(self, group, parameters, gradients, states, steps, shared, kept, hyper):
        """`shared`: which parameters all models share; `kept`: which states exist; `hyper`: `[N, H]` or `[1, H]`."""
        _core.optimizer_step(self._name, parameters, gradients, states, steps, shared, kept, hyper)


def _any(value):
    return any(value) if isinstance(value, PerModel) else value


_wrapped_step = torch.optim.Optimizer.profile_hook_step(_Optimizer._step)


class SGD(_Optimizer):
    """torch.optim.SGD for N models; every hyperparameter is a number or one per model. The first gradient of new momentum
    buffers is not dampened; all models of a group get theirs when the first of them has momentum."""

    _name = "sgd"

    def __init__(self, wide, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, params=None):
        super().__init__(wide, params, {"lr": lr, "momentum": momentum, "dampening": dampening,
                                        "weight_decay": weight_decay, "nesterov": nesterov})


class Adam(_Optimizer):
    """torch.optim.Adam for N models; every hyperparameter is a number or one per model."""

    _name, _split = "adam", {"betas": ("beta1", "beta2")}

    def __init__(self, wide, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, *, params=None):
        super().__init__(wide, params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})


class AdamW(_Optimizer):
    """torch.optim.AdamW for N models; every hyperparameter is a number or one per model."""

    _name, _split = "adamw", {"betas": ("beta1", "beta2")}

    def __init__(self, wide, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, *, params=None):
        super().__init__(wide, params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})


class RMSprop(_Optimizer):
    """torch.optim.RMSprop for N models; every hyperparameter is a number or one per model."""

    _name = "rmsprop"

    def __init__(self, wide, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, *, params=None):
        super().__init__(wide, params, {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay,
                                        "momentum": momentum})


class Lion(_Optimizer):
    """Lion (Chen et al. 2023, Symbolic Discovery of Optimization Algorithms) for N models."""

    _name, _split = "lion", {"betas": ("beta1", "beta2")}

    def __init__(self, wide, lr=1e-4, betas=(0.9, 0.99), weight_decay=0, *, params=None):
        super().__init__(wide, params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})


class Muon(_Optimizer):
    """torch.optim.Muon for N models: each model's weights `[out, in]` take a step along their momentum made orthogonal
    (Jordan et al. 2024, Muon: An optimizer for hidden layers in neural networks), in bfloat16 as PyTorch computes it.

    For matrices only: `nw.optim.Muon(wide, params=[...])` with those, and `nw.optim.AdamW(wide, params=[...])` with biases,
    embeddings and the rest. `ns_coefficients`, `eps`, `ns_steps` and `adjust_lr_fn` ("original", "match_rms_adamw") are one
    for all models. `workbench train` does not have this optimiser."""

    _name = "muon"

    def __init__(self, wide, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
                 ns_coefficients=(3.4445, -4.7750, 2.0315), eps=1e-7, ns_steps=5, adjust_lr_fn=None, *, params=None):
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            fail("nw.optim", "adjust_lr_fn", repr(adjust_lr_fn), "'original' or 'match_rms_adamw'", "leaving it out")
        if type(ns_steps) is not int or not 1 <= ns_steps < 100:
            fail("nw.optim", "ns_steps", ns_steps, "1 to 99", "5")
        if not isinstance(ns_coefficients, tuple) or len(ns_coefficients) != 3:
            fail("nw.optim", "ns_coefficients", ns_coefficients, "three numbers for all models", "(3.4445, -4.7750, 2.0315)")
        super().__init__(wide, params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov},
                         {"ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn})

    def _look_at(self, name, parameter):
        own = parameter.shape if any(parameter is p for p in self._of_all) else parameter.shape[1:]
        if len(own) != 2:
            fail("nw.optim", name, f"{tuple(own)} of each model, which Muon has no step for", "a matrix (out, in)",
                 "params= with the matrices, and nw.optim.AdamW with params= of the others")

    @torch.no_grad()
    def _step_group(self, group, parameters, gradients, states, steps, shared, kept, hyper):
        lr, decay, momentum, nesterov = hyper.T.unsqueeze(-1).unsqueeze(-1)
        expect_cpu("nw.optim", "parameter", parameters, 'nw.train(..., device="cuda:0") to train on a GPU')
        for of_all, p in zip(shared, parameters):  # check all before the first step
            if p.dtype not in (torch.float32, torch.float64):
                fail("nw.optim", "parameter", p.dtype, "float32 or float64", "torch.optim")
            if of_all and len(hyper) > 1:
                fail("nw.optim", "parameter", "one for all models and values for each", "one number for it", "a group of its own")
        for of_all, *tensors in zip(shared, parameters, gradients, [state[0] for state in states]):
            p, gradient, buffer = (t.unsqueeze(0) if of_all else t for t in tensors)
            buffer.lerp_(gradient, (1 - momentum).to(p.dtype))
            update = torch.where(nesterov > 0, gradient.lerp(buffer, momentum.to(p.dtype)), buffer)
            direction = _orthogonal(update, group["ns_coefficients"], group["eps"], group["ns_steps"])
            out, in_ = p.shape[1:]
            scale = 0.2 * math.sqrt(max(out, in_)) if group["adjust_lr_fn"] == "match_rms_adamw" else math.sqrt(max(1, out / in_))
            p.mul_((1 - lr * decay).to(p.dtype))
            p.addcmul_(direction.to(p.dtype), (-lr * scale).to(p.dtype))


def _orthogonal(matrices, coefficients, eps, steps):
    """Orthogonalises each of the matrices `[N, R, C]`: singular values near 1, by a quintic Newton-Schulz iteration."""
    a, b, c = coefficients
    turned = matrices.shape[1] > matrices.shape[2]
    x = (matrices.mT if turned else matrices).bfloat16()
    x = x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if turned else x


# Optimisers of torch.optim that would mix the parameters of several models, and what to use
# instead.
INSTEAD = {"Adafactor": Adam, "LBFGS": Adam, "Muon": Muon}
