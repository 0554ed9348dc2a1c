"""One of the N models of a wide module."""

from collections import OrderedDict
from collections.abc import Mapping

import torch
from torch import nn

from .architecture import aliases_of, refuse_extra_state
from .errors import fail


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
        refuse_extra_state(self._wide._model)
        names = {slot.name: tensor for slot, tensor in self._own()}
        ties = aliases_of(self._wide._model, self._wide._slots)
        return OrderedDict((name, names[ties.get(name, name)]) for name in self._wide._model.state_dict())

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Writes the weights of this model only. Raises Error for other names or shapes than the model's."""
        own = self.state_dict()
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
        if self._wide._frozen:
            self._wide._forget()

    def _write(self, model):
        pairs = []
        for slot, tensor in self._own():
            try:
                target = slot.of(model)
            except (AttributeError, KeyError):
                target = None
            if not isinstance(target, torch.Tensor) or target.shape != tensor.shape:
                fail("copy_to", slot.name, tuple(target.shape) if isinstance(target, torch.Tensor) else "none",
                     tuple(tensor.shape), "models of this architecture")
            pairs.append((target, tensor))
        with torch.no_grad():
            for target, tensor in pairs:
                target.copy_(tensor)

    def module(self) -> nn.Module:
        """A separate nn.Module with a copy of these weights."""
        own = self._wide._one_model()
        self._write(own)
        return own
