"""Parts of a wide module: one of the N models, and one submodule of all."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import nn

from .architecture import aliases_of, is_plain, path_text, refuse_extra_state, state_of
from .constant import same_values
from .errors import fail

Tree = TypeVar("Tree", bound=nn.Module)


class One:
    """One of the N models."""

    def __init__(self, wide, index):
        self._wide, self._index = wide, index

    def _own(self):
        wide = self._wide
        for slot, shared, weight in zip(wide._slots, wide._shared, wide._weights()):
            yield slot, weight.detach() if shared else weight.detach()[self._index]

    def state_dict(self) -> OrderedDict[str, torch.Tensor]:
        """The model's state_dict; its tensors are views of the wide tensors."""
        self._wide._expect_plain_state()
        return self._state()

    def _state(self):
        names = {slot.name: tensor for slot, tensor in self._own()}
        ties = aliases_of(self._wide._model, self._wide._slots)
        return OrderedDict((name, names[ties.get(name, name)]) for name in state_of(self._wide._model))

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Writes the weights of this model only. Raises Error for other names or shapes than the model's."""
        refuse_extra_state(self._wide._model)
        self._wide._expect_plain_state(loading=True)
        self._load(state)

    def _load(self, state):
        own = self._state()
        for name in sorted(own.keys() ^ state.keys()):
            fail("load_state_dict", name, "none" if name in own else "a tensor",
                 "a tensor" if name in own else "none", "the state_dict of such a model")
        for name, tensor in own.items():
            if state[name].shape != tensor.shape:
                fail("load_state_dict", name, tuple(state[name].shape), tuple(tensor.shape),
                     "the state_dict of such a model")
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(state[name])
        self._wide._check_rows_again()
        if self._wide._frozen:
            self._wide._forget()

    def _pairs(self, model):
        """For each of the weights its name, the tensor of `model` that it goes to, and its values."""
        pairs = []
        for slot, tensor in self._own():
            try:
                target = slot.of(model)
            except (AttributeError, KeyError):
                target = None
            if not isinstance(target, torch.Tensor) or target.shape != tensor.shape:
                fail("copy_to", slot.name, tuple(target.shape) if isinstance(target, torch.Tensor) else "none",
                     tuple(tensor.shape), "models of this architecture")
            pairs.append((slot.name, target, tensor))
        return pairs

    def module(self) -> nn.Module:
        """A separate nn.Module with a copy of these weights."""
        own = self._wide._one_model()
        put(self._pairs(own))
        return own


def put(pairs):
    """Writes weights into models' tensors, as `One._pairs` gives them. Raises Error for two values for one tensor."""
    written = {}
    for name, target, tensor in pairs:
        if not same_values(written.setdefault(id(target), tensor), tensor):
            fail("copy_to", name, "one tensor that several of these models hold, and different values for it", "one for each model",
                 "copy.deepcopy of every model")
    with torch.no_grad():
        for _, target, tensor in pairs:
            target.copy_(tensor)


class Parts(dict):
    """A wide module's or branch's submodules by name. Those of the models stay as they are: a call would compute with the old
    one."""

    def __init__(self, path=""):
        super().__init__()
        self.path = path

    def _refuse(self, name, what):
        if isinstance(self.get(name), Branch):
            fail("wide", f"{self.path}{name}", f"{what} after nw.compile", "none", "the models before nw.compile")

    def __setitem__(self, name, module):
        if module is not self.get(name):
            self._refuse(name, "an assignment")
        super().__setitem__(name, module)

    def __delitem__(self, name):
        self._refuse(name, "a removal")
        super().__delitem__(name)

    def pop(self, name, *default):
        self._refuse(name, "a removal")
        return super().pop(name, *default)

    def clear(self):
        for name in self:
            self._refuse(name, "a removal")
        super().clear()

    def update(self, *others, **more):
        for name, module in dict(*others, **more).items():
            self[name] = module


def own_train(self: Tree, mode: bool = True) -> Tree:
    """As nn.Module.train of a wide module or of a part of it. A `train` of the models' own classes decides about the modes of
    the parts, and about which parameters need gradients."""
    if all(type(m).train is nn.Module.train for m in _model_of(self).modules()):
        return nn.Module.train(self, mode)
    return _own_modes(self, "train", mode)


def own_eval(self: Tree) -> Tree:
    """As nn.Module.eval of a wide module or of a part of it, or as the `eval` of its class in the models."""
    if type(_model_of(self)).eval is nn.Module.eval:
        return self.train(False)
    return _own_modes(self, "eval", False)


def _model_of(at):
    return at._wide._model.get_submodule(at._path) if isinstance(at, Branch) else at._model


def _own_modes(self, method, mode):
    """Calls `train` or `eval` of the models' own, and sets the modes that it sets."""
    wide, path = (self._wide, self._path) if isinstance(self, Branch) else (self, "")
    module = _model_of(self)
    flags = [(slot.of(wide._model), weight) for slot, weight in zip(wide._slots, wide._weights()) if slot.kind == "parameter"]
    needed = [own.requires_grad for own, _ in flags]
    before = {m: (name, dict(vars(m)), {name: dict(vars(m)[name]) for name in _HELD}, _versions(m))
              for name, m in module.named_modules()}
    try:
        for own, weight in flags:
            own.requires_grad_(weight.requires_grad)
        module.train(mode) if method == "train" else module.eval()
        for m, (name, values, _, versions) in before.items():
            _refuse_more_than_modes(m, f"{method} of {path_text(f'{path}.{name}'.strip('.'))}", values, versions)
    except Exception:
        for m, (_, values, registered, _) in before.items():
            vars(m).clear()
            vars(m).update(values)
            for name, held in registered.items():
                values[name].clear()
                values[name].update(held)
        for (own, _), need in zip(flags, needed):
            own.requires_grad_(need)
        raise
    for own, weight in flags:
        if weight.requires_grad != own.requires_grad:
            weight.requires_grad_(own.requires_grad)
    _take_modes(self, module, mode)
    return self


_HELD = ("_modules", "_parameters", "_buffers")


def _versions(module):
    return {name: (id(held), getattr(held, "_version", 0)) for kind in _HELD for name, held in vars(module)[kind].items()
            if held is not None}


def _refuse_more_than_modes(module, what, values, versions):
    """Raises Error if a module's own `train` or `eval` changed what compiled programs do not see."""
    now, versions_now = vars(module), _versions(module)
    same = {name for name in now.keys() & values.keys() if now[name] is values[name] or is_plain(now[name]) and is_plain(
        values[name]) and now[name] == values[name]}
    changed = [name for name in now.keys() | values.keys() if name not in same and name not in ("training", *_HELD)]
    changed += [name for name in versions_now.keys() | versions.keys() if versions_now.get(name) != versions.get(name)]
    if changed:
        fail("wide", what, f"one that changes {min(changed)}", "one that sets modes", "self.training in forward")


def _take_modes(at, module, mode):
    """Sets the modes of `at` and its parts to those of the models' submodules; `mode` is for modules that were added to them."""
    at.training = module.training
    for name, part in at._modules.items():
        if isinstance(part, Branch):
            _take_modes(part, module.get_submodule(name), mode)
        elif part is not None:
            part.train(mode)


class Branch(nn.Module):
    """One submodule in the models' tree of names. Its train/eval mode applies to that submodule of all models."""

    def __init__(self, wide, path):
        super().__init__()
        self.__dict__.update(_modules=Parts(f"{path}."), _wide=wide, _path=path)

    def __setattr__(self, name, value):
        if "_wide" in self.__dict__:
            refuse_late(self._wide._model.get_submodule(self._path), name, f"{self._path}.{name}")
        before = vars(self).get(name)
        super().__setattr__(name, value)
        if name == "training" and "_wide" in self.__dict__:
            self._wide._model.get_submodule(self._path).training = value
            self._wide._modes_changed(value != before)

    train, eval = own_train, own_eval

    def _no_hook(self, *_, **__):
        fail("wide", f"hook of {self._path}", "one of a part, which is never called by itself", "hooks of the wide module",
             "the models before nw.compile")

    register_forward_hook = register_forward_pre_hook = _no_hook
    register_full_backward_hook = register_full_backward_pre_hook = _no_hook

    def __repr__(self):
        return "..."


def refuse_late(module, name, what):
    """Raises Error for a new value of an attribute that is no tensor: it is a constant of the compiled programs."""
    if name == "training" or name.startswith("_") or name not in vars(module) or isinstance(vars(module)[name], torch.Tensor):
        return
    fail("wide", what, "an assignment after nw.compile", "none", "the models before nw.compile")
