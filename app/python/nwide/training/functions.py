"""Forward's results as functions of Python get them: whole, where forward has several."""

import torch
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from ..errors import fail
from ..recording import untouched_randomness
from .network import call


MOST_ROWS, MOST_NUMBERS = 1024, 1 << 22  # at a time, as the command's evaluations


def results_of(model, inputs, batch):
    """Forward's result for all rows of `inputs`, in its own structure. Computed in batches of nearly equal sizes, no smaller than
    `batch` where there are several, if all tensors in it have numbers for each row; otherwise in one call."""
    def of(begin, end):
        return call(model, {name: values[begin:end] for name, values in inputs.items()})

    numbers, count = sum(max(1, values[:1].numel()) for values in inputs.values()), len(next(iter(inputs.values())))
    parts = -(-count // max(1, min(MOST_ROWS, max(batch, MOST_NUMBERS // numbers))))
    if parts > 1:
        with torch.no_grad(), untouched_randomness(0):
            bounds = [count * p // parts for p in range(parts + 1)]
            found = [tree_flatten(of(begin, end)) for begin, end in zip(bounds, bounds[1:])]
            fewer = tree_flatten(of(0, bounds[1] - 1))  # tells rows from what only is as long as the batch
        sizes = [*(end - begin for begin, end in zip(bounds, bounds[1:])), bounds[1] - 1]
        if all(t.dim() > 0 and len(t) == size for (leaves, _), size in zip([*found, fewer], sizes)
               for t in leaves if isinstance(t, torch.Tensor)):
            joined = [torch.cat(each) if isinstance(each[0], torch.Tensor) else each[0]
                      for each in zip(*(leaves for leaves, _ in found))]
            return tree_unflatten(joined, found[0][1])
    with torch.no_grad(), untouched_randomness(0):
        return call(model, inputs)


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
