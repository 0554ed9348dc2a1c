"""Tensor arguments: the values that they have to have, and such as are known when a call is compiled."""

import hashlib

import torch

from .errors import fail


class Constant:
    """A tensor that is constant in a compiled program; two with the same values count as equal."""

    def __init__(self, tensor):
        self.tensor = tensor.detach().clone(memory_format=torch.contiguous_format)
        values = self.tensor.cpu().reshape(-1).view(torch.uint8).numpy().tobytes() if self.tensor.numel() else b""
        self._key = self.tensor.device, self.tensor.shape, self.tensor.dtype, hashlib.sha256(values).digest()

    def __eq__(self, other):
        return isinstance(other, Constant) and self._key == other._key

    def __hash__(self):
        return hash(self._key)

    def __repr__(self):
        return f"nw.constant({self.tensor.dtype} {tuple(self.tensor.shape)})"


def same_values(a, b):
    """Whether two tensors have equal values; NaN equals NaN."""
    return a is b or (a.shape == b.shape and a.dtype == b.dtype and a.layout == b.layout
                      and bool(((a == b) | ((a != a) & (b != b))).all()))


def check_values(thing, what, tensor):
    """Raises Error for tensors that no kernel can read, such as sparse ones."""
    if tensor.layout is not torch.strided:
        fail(thing, what, f"layout {tensor.layout}", "torch.strided", "tensor.to_dense()")
    if tensor.is_meta:
        fail(thing, what, "a meta tensor", "one with values", "to_empty(device='cpu') and values")
    if tensor.numel() and not torch._is_functional_tensor(tensor) and not tensor.untyped_storage().nbytes():
        fail(thing, what, "memory that was freed", "a tensor with values", "the model before it was freed")


def constant(tensor: torch.Tensor) -> Constant:
    """A tensor `[...]` without a dimension for models, as an argument: `wide(x, nw.constant(edge_index))`.

    Its values are known when the call is compiled, so that networks that read them (`edge_index.max().item()`, self-loops,
    lengths) can be recorded; a call with other values compiles anew. Takes a copy."""
    if not isinstance(tensor, torch.Tensor):
        fail("constant", "argument", type(tensor).__name__, "a tensor", "the number itself")
    check_values("constant", "argument", tensor)
    return Constant(tensor)
