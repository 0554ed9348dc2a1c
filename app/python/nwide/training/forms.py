"""Forward's results where those in training and in evaluation form differ: both exports then give the tensor that is learned or
told, and the loss, at the same places."""

import dataclasses

import torch
from torch.utils._pytree import GetAttrKey, SequenceKey, tree_flatten_with_path, tree_leaves, tree_unflatten

from ..errors import fail
from .network import giving


@dataclasses.dataclass
class Result:
    """One tensor among forward's results. `name`: keys of dicts and places of tuples, joined by dots; "" if it is the only one."""

    name: str
    by_place: bool  # found by its place, and not by the key of a dict


def results_in(spec, tensors):
    """The results of forward in their order. `tensors`: whether each leaf of `spec` is a tensor: others are no results."""
    found, _ = tree_flatten_with_path(tree_unflatten(range(spec.num_leaves), spec))
    return [Result(".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path),
                   all(isinstance(key, (SequenceKey, GetAttrKey)) for key in path)) for path, leaf in found if tensors[leaf]]


def place_of(wanted, option, training, evaluation, learned):
    """The place of one tensor in both forms. `wanted`: its number or name; None: the first. `learned`: whether training looks at it
    too, and not only evaluations."""
    names = [result.name for result in evaluation]
    number = 0 if wanted is None else int(wanted) if str(wanted).isdecimal() else None
    place = names.index(wanted) if wanted in names else number
    if place is None and len(evaluation) == 1 and wanted in [result.name for result in training]:
        place = 0
    if place is None or place >= len(names):
        fail("train", option, wanted, f"one of forward's results in evaluation form: {', '.join(name or '0' for name in names)}",
             f"{option}={repr(next((result.name for result in evaluation if not result.by_place), 0))}")
    own = evaluation[place]
    for name in (wanted, own.name):
        for at, result in enumerate(training):
            if result.name == name and not result.by_place:
                return at, place
    if own.by_place and place < len(training) and training[place].by_place:
        return place, place
    if len(training) == 1 and training[0].by_place and wanted is not None:
        return 0, place
    if learned:
        fail("train", option, f"{_said(training, place)} in training form and {_said(evaluation, place)} in evaluation form",
             "one result of both forms", f"{option}='{_common(training, evaluation)}'")
    return 0, place


def _said(results, place):
    return results[place].name or "one tensor" if place < len(results) else f"{len(results)} results"


def _common(training, evaluation):
    named = [result.name for result in evaluation if not result.by_place] or [r.name for r in training if not r.by_place]
    both = [name for name in named if name in [result.name for result in training]]
    return next(iter(both or named), 0)


def of_places(model, places):
    """The model with a forward that gives the results at these places, counted over tensors, alone."""
    def some(result):
        leaves = [leaf for leaf in tree_leaves(result) if torch.is_tensor(leaf)]
        return tuple(leaves[place] for place in places)

    return giving(model, some)
