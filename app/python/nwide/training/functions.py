"""Forward's results as functions of Python get them: whole, where forward has several."""

import torch
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from ..errors import fail
from ..recording import untouched_randomness
from .network import call


def results_of(model, inputs, size):
    """Forward's result for all rows of `inputs`, in its own structure. Computed in batches of `size` rows, the last one filled up
    with its last row, if all tensors in it have numbers for each row; otherwise in one call."""
    count, found = len(next(iter(inputs.values()))), []
    with torch.no_grad(), untouched_randomness(0):
        for begin in range(0, count, size):
            rows = torch.arange(begin, begin + size).clamp_max(count - 1)
            leaves, structure = tree_flatten(call(model, {name: values[rows] for name, values in inputs.items()}))
            if any(t.dim() == 0 or len(t) != size for t in leaves if isinstance(t, torch.Tensor)):
                return call(model, inputs)
            found.append(leaves)
    joined = [torch.cat(parts)[:count] if isinstance(parts[0], torch.Tensor) else parts[0] for parts in zip(*found)]
    return tree_unflatten(joined, structure)


def in_dtype(values, dtype):
    """All tensors of real numbers in a structure, converted to this dtype."""
    return tree_map_only(torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, values)


class Flat:
    """Several models' results as rows of numbers [N, numbers], float64, of which means can be computed."""

    def __init__(self, results):
        leaves, self.structure = tree_flatten(results[0])
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
                fail("ensemble", "loss", f"a function of results with {getattr(leaf, 'dtype', type(leaf).__name__)} among them",
                     "tensors of real numbers, which have means", "run.best(8)")
        self.shapes = [leaf.shape for leaf in leaves]
        self.rows = torch.stack([torch.cat([leaf.double().flatten() for leaf in tree_flatten(result)[0]]) for result in results])

    def result(self, row):
        """Numbers of a row in the structure of forward's result."""
        parts = row.split([shape.numel() for shape in self.shapes])
        return tree_unflatten([part.view(shape) for part, shape in zip(parts, self.shapes)], self.structure)
