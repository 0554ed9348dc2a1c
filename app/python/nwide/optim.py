"""Optimisers of N models, each with its own learning rate and other numbers, by the kernels that `workbench train` uses."""

import functools

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from . import _core
from .errors import fail
from .module import LIVE, WideModule

_TABLE = _core.optimizers()
_OTHER_STEPS = ("amsgrad", "maximize", "centered")  # switches of torch's optimisers that these have not


class PerModel:
    """One number for each model, where torch.optim has one. Schedulers multiply and add; what has to be one number for
    all, as in a comparison, is refused."""

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

    def _with(self, other, operation):
        others = other.values if isinstance(other, PerModel) else (float(other),) * len(self)
        return PerModel(operation(a, b) for a, b in zip(self.values, others, strict=True))

    def __add__(self, other):
        return self._with(other, lambda a, b: a + b)

    def __mul__(self, other):
        return self._with(other, lambda a, b: a * b)

    def __sub__(self, other):
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other):
        return self._with(other, lambda a, b: b - a)

    def __truediv__(self, other):
        return self._with(other, lambda a, b: a / b)

    def __pow__(self, other):
        return self._with(other, lambda a, b: a ** b)

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other):
        return isinstance(other, PerModel) and self.values == other.values

    def __hash__(self):
        return hash(self.values)

    def _refused(self, *_):
        fail("nw.optim", "hyperparameter", f"{len(self)} models' values", "one number for all, as ReduceLROnPlateau takes",
             "a scheduler that multiplies, such as LambdaLR")

    __lt__ = __le__ = __gt__ = __ge__ = __float__ = __bool__ = _refused


class _Optimizer(torch.optim.Optimizer):
    """`wide`: a wide module, whose parameters are stepped in place; `params`: some of them, or torch's groups of them.
    Every hyperparameter is a number, or one for each model."""

    _name = ""
    _split = {}  # argument to the kernel's names: betas

    def __init__(self, wide, params, values):
        if not isinstance(wide, WideModule):
            fail("nw.optim", "module", type(wide).__name__, "a wide module", "nw.compile, or torch.optim")
        self.n, self._own = wide.n, list(wide.parameters())
        self._of_all = [p for p, shared in zip(wide._weights(), wide._shared) if shared]
        self._hyper = {}  # by group: what it was made of, and `[N, H]`
        names, states = _TABLE[self._name]
        self._hyperparameters, self._states = names, states
        defaults = {key: self._value(key, v) for key, v in values.items()}
        self._keys = tuple(values)
        super().__init__(wide.parameters() if params is None else params, defaults)

    def _value(self, name, value):
        """A number, or one for each model, of a hyperparameter."""
        if name in self._split:
            if not hasattr(value, "__len__") or len(value) != len(self._split[name]):
                fail("nw.optim", name, value, f"{len(self._split[name])} numbers", "(0.9, 0.999)")
            return tuple(self._value(part, v) for part, v in zip(self._split[name], value, strict=True))
        if isinstance(value, torch.Tensor):
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
        own = {name: getattr(self, name) for name in ("n", "_own", "_of_all", "_hyperparameters", "_states", "_keys")}
        return {**super().__getstate__(), **own, "_hyper": {}}

    def add_param_group(self, group):
        parameters = group["params"]
        group = {**group, "params": [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)}
        own = {id(p) for p in self._own}
        for p in group["params"]:
            p = p[1] if isinstance(p, tuple) else p  # with its name
            if id(p) not in own:  # its first dimension need not count these models
                fail("nw.optim", "params", f"{tuple(p.shape)} that the wide module has not", "some of its parameters",
                     "torch.optim for others")
        super().add_param_group({k: self._value(k, v) if k in self._keys else v for k, v in group.items()})

    def _values(self, group):
        """By the kernel's names. A list that was put in place of a number stays as PerModel."""
        values = {}
        for key in self._keys:
            parts = group[key] if key in self._split else (group[key],)
            if not isinstance(parts, tuple) or not all(isinstance(part, (int, float, PerModel)) for part in parts):
                group[key] = self._value(key, group[key])
                parts = group[key] if key in self._split else (group[key],)
            values.update(zip(self._split.get(key, (key,)), parts))
        return values

    def _hyper_of(self, index, values):
        """`[N, H]`, or `[1, H]` where all models have the same. Schedulers and users write numbers into groups: new ones are
        checked as at the beginning."""
        made_of = tuple(values[name] for name, *_ in self._hyperparameters)
        known = self._hyper.get(index)
        if known is None or known[0] != made_of:
            for value, hyperparameter in zip(made_of, self._hyperparameters):
                self._check(value, hyperparameter)
            rows = self.n if any(isinstance(v, PerModel) for v in made_of) else 1
            columns = [v.values if isinstance(v, PerModel) else (float(v),) * rows for v in made_of]
            known = self._hyper[index] = made_of, torch.tensor(columns, dtype=torch.float64).T.contiguous()
        return known[1]

    def load_state_dict(self, state_dict):
        """Of this class, or of torch's optimiser of this name."""
        asked = {key for group in state_dict["param_groups"] for key in _OTHER_STEPS if group.get(key)}
        if asked:
            fail("nw.optim", sorted(asked)[0], "a state made with it", "one made without", "torch.optim over wide.parameters()")
        super().load_state_dict(state_dict)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        shared = {id(p) for p in self._of_all}
        all_values = [self._values(group) for group in self.param_groups]
        hypers = [self._hyper_of(index, values) for index, values in enumerate(all_values)]  # wrong ones, before any step is taken
        for group, values, hyper in zip(self.param_groups, all_values, hypers):
            kept = [not with_ or bool(_any(values[with_])) for _, with_ in self._states]
            names = [name for (name, _), keeps in zip(self._states, kept) if keeps]
            parameters, gradients, states, steps = [], [], [], []
            for p in group["params"]:
                gradient = p.grad
                if gradient is None:
                    continue
                state = self.state[p]
                state["step"] = step = int(state.get("step", 0)) + 1
                for name in names:
                    if state.get(name) is None:
                        state[name] = torch.zeros_like(p, memory_format=torch.contiguous_format)
                parameters.append(p)
                gradients.append(gradient)
                states.append([state[name] for name in names])
                steps.append(step)
            if parameters:
                _core.optimizer_step(self._name, parameters, gradients, states, steps, [id(p) in shared for p in parameters],
                                     kept, hyper)
        return loss


def _any(value):
    return any(value) if isinstance(value, PerModel) else value


class SGD(_Optimizer):
    """torch.optim.SGD of every model."""

    _name = "sgd"

    def __init__(self, wide, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, params=None):
        super().__init__(wide, params, {"lr": lr, "momentum": momentum, "dampening": dampening,
                                        "weight_decay": weight_decay, "nesterov": nesterov})


class Adam(_Optimizer):
    """torch.optim.Adam of every model."""

    _name, _split = "adam", {"betas": ("beta1", "beta2")}

    def __init__(self, wide, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, *, params=None):
        super().__init__(wide, params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})


class AdamW(_Optimizer):
    """torch.optim.AdamW of every model."""

    _name, _split = "adamw", {"betas": ("beta1", "beta2")}

    def __init__(self, wide, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, *, params=None):
        super().__init__(wide, params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})


class RMSprop(_Optimizer):
    """torch.optim.RMSprop of every model."""

    _name = "rmsprop"

    def __init__(self, wide, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, *, params=None):
        super().__init__(wide, params, {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay,
                                        "momentum": momentum})


class Lion(_Optimizer):
    """Lion (Chen et al. 2023, Symbolic Discovery of Optimization Algorithms) of every model."""

    _name, _split = "lion", {"betas": ("beta1", "beta2")}

    def __init__(self, wide, lr=1e-4, betas=(0.9, 0.99), weight_decay=0, *, params=None):
        super().__init__(wide, params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})


# ---------------------------------------------------------------------- what mixes models

_MIXING = {"Adafactor": "nw.optim.Adam", "LBFGS": "nw.optim.Adam", "Muon": "nw.optim.Adam"}


def _wide_among(parameters):
    """Whether any is of a wide module of several models."""
    ids = {id(p) for p in parameters}
    return any(id(p) in ids for wide in list(LIVE) if wide.n > 1 for p in wide.parameters())


def _look(optimizer, *_):
    name = type(optimizer).__name__
    if name in _MIXING and type(optimizer).__module__.startswith("torch.optim") and _wide_among(
            p for group in optimizer.param_groups for p in group["params"]):
        fail(f"torch.optim.{name}", "parameters", "those of a wide module, which it would mix across models",
             "an optimiser that works number by number", _MIXING[name])


register_optimizer_step_pre_hook(_look)


def _guarded(plain):
    """torch.nn.utils.clip_grad_norm_, which would clip all models by their norm as one."""
    @functools.wraps(plain)
    def clip_grad_norm_(parameters, *args, **kwargs):
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if _wide_among(parameters):
            fail("torch.nn.utils.clip_grad_norm_", "parameters", "those of a wide module", "one model's",
                 "nw.clip_grad_norm_(wide, max_norm), which clips each model by its own norm")
        return plain(parameters, *args, **kwargs)
    return clip_grad_norm_


nn.utils.clip_grad_norm_ = nn.utils.clip_grad.clip_grad_norm_ = _guarded(nn.utils.clip_grad.clip_grad_norm_)
