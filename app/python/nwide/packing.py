"""Stacks separate models' tensors to wide ones, and splits them again."""

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .causes import refuse_hidden
from .classes import contents
from .errors import fail


def pack(separate: Iterable[Any]) -> Any:
    """Stacks N models' inputs, nested alike, to wide ones `[N, ...]`. Values that are no tensors must be equal."""
    separate = list(separate)
    if not separate:
        fail("pack", "models", "none", "at least one", "a tensor for each model")
    forms = [pytree.tree_flatten(one) for one in separate]
    for i, (_, spec) in enumerate(forms):
        if spec != forms[0][1]:
            fail("pack", f"model {i}", spec, f"{forms[0][1]} as of model 0", "inputs nested alike")
    columns = []
    for k, column in enumerate(zip(*(leaves for leaves, _ in forms))):
        if not isinstance(column[0], torch.Tensor):
            for i, value in enumerate(column):
                refuse_hidden("pack", f"argument {k} of model {i}", value)
                if isinstance(value, torch.Tensor) or not _equal(value, column[0]):
                    got, expected = (" ".join(str(v).split()) for v in (value, column[0]))
                    fail("pack", f"argument {k} of model {i}", got, f"{expected} as of model 0", "a tensor for each model")
            columns.append(column[0])
            continue
        for i, t in enumerate(column):
            if not isinstance(t, torch.Tensor) or t.shape != column[0].shape or t.dtype != column[0].dtype:
                got = f"{t.dtype} {tuple(t.shape)}" if isinstance(t, torch.Tensor) else type(t).__name__
                fail("pack", f"tensor {k} of model {i}", got, f"{column[0].dtype} {tuple(column[0].shape)} as of model 0",
                     "tensors of one shape")
        columns.append(torch.stack(column))
    return pytree.tree_unflatten(columns, forms[0][1])


def _equal(one, other):
    try:
        return bool(one == other)
    except Exception:  # such as NumPy's arrays, which are compared item by item
        return contents(one, objects=False) == contents(other, objects=False)


def unpack(wide: Any, n: int | None = None) -> list[Any]:
    """Splits wide tensors, nested in any way, into a list of each model's own, as views. `n`, if given, is
    the expected number of models."""
    leaves, spec = pytree.tree_flatten(wide)
    if any(isinstance(t, torch.Tensor) and not t.dim() for t in leaves):
        fail("unpack", "models", "a tensor without dimensions", "one N in front of every tensor", "what a wide module gave")
    counts = {t.shape[0] for t in leaves if isinstance(t, torch.Tensor)}
    if len(counts) != 1:
        fail("unpack", "models", sorted(counts) or "no tensor", "one N in front of every tensor", "what a wide module gave")
    count = counts.pop()
    if n not in (None, count):
        fail("unpack", "models", count, n, "what a wide module gave")
    return [pytree.tree_unflatten([t[i] if isinstance(t, torch.Tensor) else t for t in leaves], spec) for i in range(count)]
