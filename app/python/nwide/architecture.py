"""Checks that N models have one architecture, and finds the tensors in which they differ."""

import copy
import itertools
import types
from collections import OrderedDict

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.weight_norm import WeightNorm
from torch.utils import _pytree as pytree

from .classes import Comparison, difference, place
from .constant import check_values, same_values
from .errors import fail, one_line

PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)

_REGISTERED = frozenset(vars(nn.Module()))  # names of nn.Module's own


def path_text(path):
    return path or "the model itself"


class _Attributes(Comparison):
    """Compares attributes of two models' modules: two submodules are the same if they stand at the same path."""

    def __init__(self, first, model):
        super().__init__()
        self.inside = False  # whether it is of a function, which copies of a model share with it
        self.holds = False  # whether a function holds its model
        self.paths = {id(m): path for one in (first, model) for path, m in one.named_modules()}

    def alike(self, a, b):
        """`same` but for tensors, whose values are the models' own or, also those of unregistered modules, are checked by
        check_kept_apart."""
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            return True
        if isinstance(a, nn.Module) and isinstance(b, nn.Module) and not {id(a), id(b)} & self.paths.keys():
            return not self.classes(kind(a), kind(b)) and a.extra_repr() == b.extra_repr()
        if type(a) is type(b) and isinstance(a, (list, tuple)):
            return len(a) == len(b) and all(map(self.alike, a, b))
        if type(a) is type(b) and isinstance(a, dict):
            return a.keys() == b.keys() and all(self.alike(a[k], b[k]) for k in a)
        return self.same(a, b)

    def same(self, a, b):
        if isinstance(a, nn.Module) and (id(a) in self.paths or id(b) in self.paths):
            self.holds = self.holds or self.inside and a is not b
            return self.paths.get(id(a)) == self.paths.get(id(b)) and not self.holds
        if isinstance(a, (set, frozenset)) and isinstance(b, (set, frozenset)):
            return a == b or {self.paths.get(id(x), x) for x in a} == {self.paths.get(id(x), x) for x in b}
        if type(a) is type(b) and hasattr(a, "tobytes") and hasattr(a, "shape"):  # NumPy's, which need not be installed
            return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
        return super().same(a, b)

    def _functions(self, a, b):
        before, self.inside = self.inside, True
        try:
            return super()._functions(a, b)
        finally:
            self.inside = before

    def _objects(self, a, b):
        """Objects implemented in C that only are themselves, such as locks and generators, cannot be told apart."""
        opaque = not hasattr(a, "__dict__") and type(a).__eq__ is object.__eq__
        return opaque or super()._objects(a, b)


def _compared(module):
    """A submodule's attributes that are compared. Those of nn.Module itself are left out but for hooks; of other private ones,
    which may be caches, functions and what consists of numbers and text remain, except those of PyTorch's classes."""
    def told(name, value):
        if type(module).__module__.startswith("torch._dynamo"):  # torch.compile's: the module inside is compared
            return False
        if not name.startswith("_"):
            return True
        plain = isinstance(value, PLAIN[:6]) or is_plain(value) and value or callable(value) and not isinstance(value, nn.Module)
        return plain and not type(module).__module__.startswith("torch.")

    found = {name: value for name, value in vars(module).items() if name not in _REGISTERED and told(name, value)}
    for name in ("_forward_pre_hooks", "_forward_hooks"):
        found[name] = list(vars(module)[name].values())
    return found


def is_plain(value):
    parts = value.values() if isinstance(value, dict) else value
    return isinstance(value, PLAIN) or isinstance(value, (tuple, list, dict, set, frozenset)) and all(map(is_plain, parts))


def _described(value):
    """A value as a message shows it: functions by name, long ones cut."""
    text = f"function {value.__qualname__}" if isinstance(value, types.FunctionType) else repr(value)
    return text if len(text) < 80 else text[:76] + " ..."


def kind(module):
    """A module's class; for a parametrized module the original class, as parametrizations make a class for each module."""
    return parametrize.type_before_parametrizations(module)


def check_same(models):
    """Raises Error if the models differ in more than the values of their tensors."""
    for i, model in enumerate(models[1:], 1):
        if model is not models[0]:
            check_like(models[0], model, i)


def check_like(first, model, number, thing="compile"):
    """Raises Error if model `number` differs from the first one in more than the values of its tensors."""
    mine, its = dict(first.named_modules()), dict(model.named_modules())
    if its.keys() != mine.keys():
        odd = sorted(its.keys() ^ mine.keys())[0]
        fail(thing, f"submodules of model {number}", f"{path_text(odd)} in one model alone",
             "those of model 0", "models of one architecture")
    comparison = _Attributes(first, model)
    for path, module in mine.items():
        twin = its[path]
        _check_same_class(thing, f"{path_text(path)} of model {number}", kind(twin), kind(module))
        if twin.extra_repr() != module.extra_repr():
            fail(thing, f"{path_text(path)} of model {number}", twin.extra_repr(),
                 f"{module.extra_repr()} as in model 0", "models of one architecture")
        expected, got = _compared(module), _compared(twin)
        for name in sorted(expected.keys() | got.keys()):
            if name in expected and name in got:
                if comparison.alike(expected[name], got[name]):
                    continue
                if comparison.holds:
                    fail(thing, f"{path_text(path)}.{name} of model {number}", "a function that holds the model", "one of its arguments",
                         "a method, which gets the model as self")
                there, own = _described(got[name]), f"{_described(expected[name])} as in model 0"
                if there + " as in model 0" == own:
                    there, own = f"{there} that differs", "that of model 0"
            elif name.startswith("_"):
                continue
            else:
                there, own = (_described(v[name]) if name in v else "none" for v in (got, expected))
                own += " as in model 0"
            fail(thing, f"{path_text(path)}.{name} of model {number}", there, own, "models of one architecture")
        if twin.training != module.training:
            fail(thing, f"{path_text(path)}.training of model {number}", twin.training,
                 f"{module.training} as in model 0", "model.eval() or model.train() on all of them")
    _check_names(thing, number, _names(first), _names(model))


def _names(model):
    """Of each name of a parameter or buffer whether there is a tensor, and the first name of this tensor."""
    first, found = {}, {}
    for path, module in model.named_modules():
        for leaf, tensor in itertools.chain(module._parameters.items(), module._buffers.items()):
            name = f"{path}.{leaf}".lstrip(".")
            found[name] = None if tensor is None else first.setdefault(id(tensor), name)
    return found


def _check_names(thing, number, expected, got):
    """Raises Error for tensors that are in one model alone, or that are one in one model alone."""
    def said(name, names):
        own = names.get(name)
        return "none" if own is None else "a tensor of its own" if own == name else f"the tensor {own}"

    for name in {**expected, **got}:
        if said(name, got) != said(name, expected):
            fail(thing, f"{name} of model {number}", said(name, got), f"{said(name, expected)} as in model 0", "models of one architecture")


def _check_same_class(thing, what, its, first):
    """Raises Error for another class, unless it is the same code defined again."""
    differs = difference(its, first)
    if not differs:
        return
    got, expected = its.__name__, first.__name__
    if got == expected:  # names alone would not tell them apart
        there, own = (place(cls, differs) for cls in (its, first))
        got += f" with another {differs}" + (f" (at {there})" if there else "")
        expected += f" (at {own})" if own else ""
    fail(thing, what, got, f"{expected} as in model 0", "models of one architecture")


def check_kept_apart(models):
    """Raises Error if a model has tensors in a plain list or dict, unregistered, that differ from model 0's: they
    are constants of the program."""
    places = [(path, name) for path, module in models[0].named_modules() for name, value in vars(module).items()
              if name not in _REGISTERED and isinstance(value, (list, tuple, dict))]
    for path, name in places:
        first = _unregistered(models[0], vars(models[0].get_submodule(path))[name])
        for i, model in enumerate(models[1:], 1):
            value = vars(model.get_submodule(path)).get(name)
            own = _unregistered(model, value)
            if len(own) != len(first) or not all(
                    a is b or (a.shape, a.dtype) == (b.shape, b.dtype) and torch.equal(a, b) for a, b in zip(own, first)):
                fail("compile", f"{path}.{name}".lstrip(".") + f" of model {i}", f"tensors of its own in a {type(value).__name__}",
                     "those of model 0, as nn.Module does not know them", "nn.ModuleList, nn.ParameterList or register_buffer")


def _unregistered(model, value):
    """The tensors in `value` that are neither parameters nor buffers of the model."""
    found = []
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, nn.Module):
            found += [*leaf.parameters(), *leaf.buffers()]
        elif isinstance(leaf, torch.Tensor):
            found.append(leaf)
    known = {id(t) for t in (*model.parameters(), *model.buffers())} if found else ()
    return [t for t in found if id(t) not in known]


class Slot:
    """The place of one tensor in a module, the same in every model."""

    def __init__(self, name, kind, persistent=True):
        self.name, self.kind, self.persistent = name, kind, persistent
        self.path, _, self.leaf = name.rpartition(".")

    def of(self, model):
        owner = model.get_submodule(self.path)
        if self.kind == "attribute":
            return vars(owner)[self.leaf]
        return (owner._parameters if self.kind == "parameter" else owner._buffers)[self.leaf]


def refuse_recomputed(thing, model):
    """Raises Error for weights that a hook computes before each call and keeps as an attribute: such a module cannot be copied."""
    for path, module in model.named_modules():
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm):
                fail(thing, f"weight norm of {path_text(path)}", "torch.nn.utils.weight_norm, which keeps a computed weight as an attribute",
                     "parameters and buffers", "torch.nn.utils.parametrizations.weight_norm")
            if isinstance(hook, BasePruningMethod):
                fail(thing, f"pruning of {path_text(path)}", "torch.nn.utils.prune, which keeps a computed weight as an attribute",
                     "parameters and buffers", "torch.nn.utils.prune.remove, or a parametrization with the mask as a buffer")


def refuse_extra_state(model):
    """Raises Error for modules whose state_dict holds more than tensors that are known by name."""
    for path, module in model.named_modules():
        if type(module).get_extra_state is not nn.Module.get_extra_state:
            fail("state_dict", path_text(path), "get_extra_state, whose results cannot be stacked",
                 "parameters and buffers alone", "wide.copy_to(models) and the state_dict of each, or register_buffer for it")


def refuse_own_state(model, loading=False):
    """Raises Error for modules whose state_dict, or what is loaded from one, is not their tensors by name: the code that makes
    it so works on one model's."""
    if not loading:
        refuse_extra_state(model)
    hooks = ("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks") if loading else (
        "_state_dict_pre_hooks", "_state_dict_hooks")
    methods = ("_load_from_state_dict", "load_state_dict") if loading else ("_save_to_state_dict", "state_dict")
    paths = [path for path, module in model.named_modules() if any(getattr(module, name, ()) for name in hooks) or any(
        not getattr(type(module), name).__module__.startswith("torch.") for name in methods)]
    if not paths:
        return
    odd = _loads_otherwise(model) if loading else _saves_otherwise(model)
    if odd:
        fail(methods[1], path_text(paths[0]), f"a hook or method of its own that {odd}", "tensors as they are",
             "load_state_dict of the models before nw.compile" if loading else "wide.copy_to(models) and the state_dict of each")


def _saves_otherwise(model):
    """What its state_dict does to a tensor; "" if all are there by name as they are."""
    one = _drawn(model)
    try:
        return _changed(one.state_dict(), state_of(one))
    except Exception as error:
        return f"raises {one_line(error)}"


def _loads_otherwise(model):
    """What loading does to a tensor; "" if all become what they are in the state_dict."""
    given = state_of(_drawn(model))

    def loaded(**options):
        one, state = copy.deepcopy(model), OrderedDict((name, t.clone()) for name, t in given.items())
        state._metadata = getattr(one.state_dict(), "_metadata", {})  # the versions of today's classes
        one.load_state_dict(state, **options)
        return state_of(one)

    try:
        try:
            got = loaded()
        except RuntimeError as error:
            if "key(s) in state_dict" not in str(error):
                raise
            got = loaded(strict=False)
        return _changed(got, given)
    except Exception as error:
        return f"raises {one_line(error)}"


def _drawn(model):
    """A copy with real numbers by chance: a change of zeros may not show."""
    one, generator = copy.deepcopy(model), torch.Generator().manual_seed(0)
    for t in (*one.parameters(), *one.buffers()):
        if t.is_floating_point():
            t.data = torch.rand(t.shape, generator=generator).to(t)
    return one


def _changed(got, expected):
    for name in (*expected, *got):
        t, own = got.get(name), expected.get(name)
        if not isinstance(t, torch.Tensor) or own is None or not same_values(t.to(own), own):
            return f"changes {name}"
    return ""


def state_of(model):
    """The parameters and buffers that nn.Module's own state_dict holds, by name."""
    return OrderedDict((f"{path}.{leaf}".lstrip("."), t.detach()) for path, module in model.named_modules(remove_duplicate=False)
                       for leaf, t in (*module._parameters.items(), *module._buffers.items())
                       if t is not None and leaf not in module._non_persistent_buffers_set)


def slots_of(model):
    """Parameters, buffers and unregistered tensors, in this order, each tensor once."""
    seen, slots = set(), []

    def add(slot):
        tensor = slot.of(model)
        if tensor is not None and id(tensor) not in seen:
            seen.add(id(tensor))
            slots.append(slot)

    for name, _ in model.named_parameters():
        add(Slot(name, "parameter"))
    for path, module in model.named_modules():
        for leaf in module._buffers:
            add(Slot(f"{path}.{leaf}".lstrip("."), "buffer", leaf not in module._non_persistent_buffers_set))
    for path, module in model.named_modules():
        for leaf, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                add(Slot(f"{path}.{leaf}".lstrip("."), "attribute"))
    return slots


def aliases_of(model, slots):
    """Additional names of tied tensors: a dict from name to the name in `slots`."""
    known = {id(slot.of(model)): slot.name for slot in slots}
    found = {}
    for named in (model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)):
        for name, tensor in named:
            first = known.get(id(tensor))
            if first is not None and first != name:
                found[name] = first
    return found


def gather(models, slot):
    """The slot's tensor of every model, checked to fit together."""
    tensors = [slot.of(model) for model in models]
    first = tensors[0]
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, torch.Tensor):
            fail("compile", f"{slot.name} of model {i}", type(tensor).__name__, "a tensor as in model 0",
                 "models of one architecture")
        if isinstance(tensor, nn.parameter.UninitializedTensorMixin):
            fail("compile", f"{slot.name} of model {i}", "a tensor of no size yet", "one with values",
                 "a call of the model itself first")
        check_values("compile", f"{slot.name} of model {i}", tensor)
        for what, own, expected in (("shape", tuple(tensor.shape), tuple(first.shape)),
                                    ("dtype", tensor.dtype, first.dtype), ("device", tensor.device, first.device)):
            if own != expected:
                fail("compile", f"{slot.name} of model {i}", f"{what} {own}", f"{expected} as in model 0",
                     "models of one architecture")
        if slot.kind == "parameter" and tensor.requires_grad != first.requires_grad:
            fail("compile", f"{slot.name} of model {i}", f"requires_grad {tensor.requires_grad}",
                 f"{first.requires_grad} as in model 0", "requires_grad_ on all of them")
    return tensors


def tied(models, tensors):
    """The numbers of two of the models, different objects, that hold one tensor; () if there are none."""
    first = {}
    for i, (model, tensor) in enumerate(zip(models, tensors)):
        other = first.setdefault(id(tensor), i)
        if models[other] is not model:
            return other, i
    return ()


class FunctionModule(nn.Module):
    """A function of tensors as a model without weights."""

    def __init__(self, function):
        super().__init__()
        self._function = function
        self.forward = function
