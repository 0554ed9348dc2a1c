"""Checkpoints that models start from instead of what their `__init__` makes: one for all, or one each."""

import os
import re

import torch

from ..errors import fail, one_line
from . import tensor_files


class Weights:
    """`given`: a state_dict or a file of one, .safetensors or of torch.save, or a list or folder of them. `missing`: "fresh", where tensors
    that they lack stay as each model's own `__init__` makes them, or None."""

    def __init__(self, given, missing):
        if missing not in (None, "fresh"):
            fail("train", "init_missing", repr(missing), "'fresh', of each model's own __init__", "init_missing='fresh'")
        if isinstance(given, (str, os.PathLike)) and os.path.isdir(given):
            given = _in_folder(os.fspath(given))
        self.listed = isinstance(given, (list, tuple))
        self.given = list(given) if self.listed else [given]
        if not self.given:
            fail("train", "weights", "an empty list", "a state_dict, a file, or one of them a model", "weights='backbone.pt'")
        self.missing, self.fresh, self.left_out, self._read = missing, [], [], {}

    def count(self):
        """How many models they are for; 0: any number."""
        return len(self.given) if self.listed else 0

    def load(self, model, number):
        """Loads model `number`'s weights into `model`."""
        values = self._values(number if self.listed else 0)
        own = {name: t for name, t in model.state_dict().items() if isinstance(t, torch.Tensor)}
        fits = {name for name, t in own.items() if name in values and values[name].shape == t.shape}
        fresh, left_out = [name for name in own if name not in fits], [name for name in values if name not in fits]
        if self.missing is None and (fresh or left_out):
            name = (fresh or left_out)[0]
            got = tuple(values[name].shape) if name in values else "none"
            fail("train", f"weights {name}", got, tuple(own[name].shape) if name in own else "none of this name",
                 "init_missing='fresh', which leaves it as __init__ makes it" if name in own else "the weights of this network")
        if not fits:
            fail("train", "weights", f"{len(values)} tensors of other names", f"some of the network's {len(own)}",
                 f"a state_dict with {next(iter(own), 'tensors')}")
        model.load_state_dict({name: values[name] for name in fits}, strict=False)
        self.fresh, self.left_out = fresh, left_out

    def note(self):
        """A note on tensors that the weights lack; "" if none."""
        def some(names):
            return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")

        parts = [f"{len(self.fresh)} tensors that weights= has not are each model's own: {some(self.fresh)}"] if self.fresh else []
        parts += [f"{len(self.left_out)} of weights= are left out: {some(self.left_out)}"] if self.left_out else []
        return "; ".join(parts)

    def _values(self, place):
        if place >= len(self.given):
            fail("train", "weights", f"{len(self.given)} checkpoints", "one for each model, or one for all", "weights='backbone.pt'")
        if place not in self._read:
            self._read = {place: self._state_dict(self.given[place])}
        return self._read[place]

    @staticmethod
    def _state_dict(given):
        if isinstance(given, (str, os.PathLike)):
            path = os.fspath(given)
            try:
                given = tensor_files.load(path) if path.endswith(".safetensors") else torch.load(path, "cpu", weights_only=True)
            except Exception as error:  # a damaged file may raise anything
                fail("train", f"weights {path}", one_line(error), "a state_dict in a file", ".safetensors or torch.save's")
        if not isinstance(given, dict) or not all(isinstance(t, torch.Tensor) for t in given.values()):
            fail("train", "weights", type(given).__name__, "a state_dict or its file", "weights=net.state_dict(), or sample_weight=")
        return given


def _in_folder(folder):
    """The checkpoints in a folder, number 10 after number 9; those of safetensors where there are others beside them."""
    names = [name for name in os.listdir(folder) if not name.startswith(".")]
    found = next((of for end in (".safetensors", (".pt", ".pth", ".bin", ".ckpt")) if (of := [n for n in names if n.endswith(end)])), [])
    if not found or any(name.endswith(".index.json") for name in names):
        fail("train", f"weights {folder}", "parts of one checkpoint" if found else "a folder without checkpoints",
             "a file of a state_dict for each model", "the folder last/ of a run")
    if "run.safetensors" in names:
        fail("train", f"weights {folder}", "a run's folder", "the folder of its checkpoints", f"weights='{os.path.join(folder, 'last')}'")
    found.sort(key=lambda name: [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)])
    return [os.path.join(folder, name) for name in found]
