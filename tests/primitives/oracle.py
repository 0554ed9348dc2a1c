"""Computes registered single models with PyTorch, as their targets say, for torch_test.cpp.

usage: oracle.py FOLDER. Every case is a folder inside it: `case` is JSON with the target's name, its axes (null where
absent) and its oracle; `<k>.<name>` is the k-th tensor as raw little-endian doubles (or int64), its first line the
sizes. Written back: `out.<k>` in the same form.

An oracle is Python that sets `y` to a tensor or a list of them. It finds torch and nn, the tensors `t` by name, the
axes as attributes of `a`, and the two functions below.
"""

import json
import os
import sys
import textwrap
import types

import torch
from torch import nn

torch.set_grad_enabled(False)
torch.set_default_dtype(torch.float64)


def read(path):
    with open(path, "rb") as file:
        head, data = file.read().split(b"\n", 1)
    kind, *sizes = head.decode().split()
    dtype = {"f": torch.float64, "i": torch.int64}[kind]
    flat = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return flat.reshape([int(s) for s in sizes])


def write(path, tensor):
    with open(path, "wb") as file:
        file.write(("f " + " ".join(map(str, tensor.shape)) + "\n").encode())
        file.write(tensor.contiguous().double().numpy().tobytes())


def evaluate(oracle, tensors, axes):
    def load(module, prefix=""):
        """The module with the values of the tensors that it has under these names."""
        own = {name: tensors[prefix + name] for name in module.state_dict() if prefix + name in tensors}
        module.load_state_dict(own, strict=False)
        return module

    def linear(name):
        """The linear layer of that name, as large as its weight."""
        return load(nn.Linear(*reversed(tensors[f"{name}.weight"].shape)), f"{name}.")

    names = {"torch": torch, "nn": nn, "t": tensors, "a": types.SimpleNamespace(**axes), "load": load, "linear": linear}
    exec(textwrap.dedent(oracle), names)  # pylint: disable=exec-used
    return [names["y"]] if isinstance(names["y"], torch.Tensor) else list(names["y"])


def main():
    root = sys.argv[1]
    for number in sorted(os.listdir(root)):
        folder = os.path.join(root, number)
        with open(os.path.join(folder, "case"), encoding="utf-8") as file:
            case = json.load(file)
        files = [f for f in os.listdir(folder) if f != "case"]
        tensors = {f.split(".", 1)[1]: read(os.path.join(folder, f))
                   for f in sorted(files, key=lambda f: int(f.split(".", 1)[0]))}
        try:
            results = evaluate(case["oracle"], tensors, case["axes"])
        except Exception as error:
            sys.exit(f"oracle of {case['target']} at {case['axes']}: {type(error).__name__}: {error}")
        for k, result in enumerate(results):
            write(os.path.join(folder, f"out.{k}"), result)


main()
