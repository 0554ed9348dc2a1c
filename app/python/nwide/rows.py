"""What `wide.at(ids)` gives: some of the models, or rows that belong to different models, such as users' adapters."""

import reprlib
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import _core
from .errors import fail
from .recording import Form, untouched_randomness


def numbers_of_models(ids, n):
    """Numbers of some of n models, as a tensor."""
    try:
        ids = torch.as_tensor(ids)
    except (RuntimeError, TypeError, ValueError):
        fail("at", "ids", " ".join(reprlib.repr(ids).split()), "numbers of models", "a list, such as list(range(2)) for a slice")
    if ids.dim() != 1 or ids.numel() == 0:
        fail("at", "ids", tuple(ids.shape), "a row of numbers of models", "[0, 3]")
    if ids.dtype not in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        fail("at", "ids", ids.dtype, "whole numbers", "torch.nonzero(mask)[:, 0] for a mask")
    ids = ids.long()
    wrong = ids[(ids < 0) | (ids >= n)]
    if wrong.numel():
        fail("at", "ids", int(wrong[0]), f"0 to {n - 1}", "a number of a model")
    return ids


class Some:
    """Some of the N models, `wide.at(ids)`: called like the wide module, with dimension 0 of size len(ids)."""

    def __init__(self, wide, ids):
        self._wide, self._ids = wide, ids

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._with(args, kwargs, self._take)[0]

    def _with(self, args, kwargs, take):
        _refuse_hooks(self._wide)
        return self._wide._of_some(len(self._ids))._call(args, kwargs, self._weights, take)

    def _weights(self):
        wide = self._wide
        self._given = [w if shared else w.index_select(0, self._ids) for w, shared in zip(wide._values(), wide._shared)]
        for own, given in zip(wide._values(), self._given):
            if given is not own and not own.requires_grad:
                _core.carry(own, given)
        return self._given

    def _take(self, changed):
        if changed and self._ids.unique().numel() < self._ids.numel():
            fail("at", "ids", f"a model twice in {self._ids.tolist()}", "each once, as forward changes its buffers",
                 "eval() of the wide module")
        for k, value in changed:
            at, kind, leaf = self._wide._places[k]
            at.__dict__[kind][leaf].data.index_copy_(0, self._ids, value)
            _core.carry(self._given[k], at.__dict__[kind][leaf])
            if self._wide._fixed is not None:
                self._wide._fixed[k].index_copy_(0, self._ids, value)


class Routed:
    """`wide.at(ids, rows=True)`: row b of every argument `[B, ...]` goes to model `ids[b]`; row b of the result is its output.

    Rows are grouped by model and padded with copies to a power of two, so that few sizes are compiled; the copies'
    outputs are dropped. Where at most half of the models have rows, only those are computed.
    """

    def __init__(self, wide, ids):
        self._wide, self._ids = wide, ids

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        wide, ids = self._wide, self._ids
        _refuse_hooks(wide)
        form = Form((args, kwargs))
        dims = wide._dims(form)
        if any(d not in (0, None) for d in dims):
            fail("at", "in_dims", dims, "0 or None, as rows are told by models", "in_dims=0")
        for t, d in zip(form.tensors, dims):
            if d is not None and (t.dim() == 0 or t.shape[0] != len(ids)):
                fail("at", "rows", tuple(t.shape), f"[{len(ids)}, ...], a row for each id", "as many ids as rows")
        models, row, place, filled_up = self._layout()
        checked = wide._rows_checked  # a change of modes meanwhile puts another in its place
        made, recorder = self._computed(form, dims, models, row, place)
        if filled_up and not checked.get(recorder):
            untried = recorder not in checked
            checked[recorder] = (untried and self._check_apart(form, dims, models, row, place, True)
                                 or self._check_apart(form, dims, models, row, place, False))
        return made

    def _computed(self, form, dims, models, row, place):
        wide, (count, rows) = self._wide, row.shape
        given = [t if d is None else t.index_select(0, row.flatten()).view(count, rows, *t.shape[1:])
                 for t, d in zip(form.tensors, dims)]
        args, kwargs = form.build(given)
        if models is None:
            made, recorder = wide._call(args, kwargs, wide._current, _no_change)
        else:
            made, recorder = wide.at(models)._with(args, kwargs, _no_change)
        return pytree.tree_map_only(torch.Tensor, lambda t: self._answers(t, count, rows, place), made), recorder

    def _check_apart(self, form, dims, models, row, place, invent):
        """Checks, with the values of other rows in the padding, that padding does not change an output. `invent`: also with
        invented values in tensors whose rows are equal. True if other rows have other values and the check passed; invented values
        can only refuse, as forward may round them to the same."""
        count, filled = len(self._ids), torch.ones(row.numel(), dtype=torch.bool)
        filled[place] = False
        own = row.flatten()[filled]
        spare = (own + 1 + torch.arange(len(own))) % count
        others = row.flatten().clone()
        others[filled] = count + torch.arange(len(own))
        other, differ, invented = form.bare(), False, False
        for t, d in zip(form.tensors, dims):
            if d is not None:
                padding = t.detach().index_select(0, spare)
                same = torch.equal(padding, t.index_select(0, own))
                if same and invent and t.is_floating_point() and t.numel():  # less than 1 more, as it may be a whole number
                    padding = padding + torch.linspace(0.1, 0.9, padding.numel()).view_as(padding).to(padding)
                    invented = True
                t, differ = torch.cat([t.detach(), padding]), differ or not same
            other.tensors.append(t)
        if not differ and not invented:
            return False
        answers = []
        with torch.no_grad():
            for given, rows in ((form, row), (other, others.view_as(row))):
                with untouched_randomness(0, [*form.tensors, *self._wide.parameters()]):
                    try:
                        answers.append(self._computed(given, dims, models, rows, place)[0])
                    except Exception:  # forward does not take such values, which says nothing about this call
                        return False
        for a, b in zip(*(pytree.tree_leaves(made) for made in answers)):
            if isinstance(a, torch.Tensor) and not torch.allclose(a.double(), b.double(), 1e-3, 1e-5, equal_nan=True):
                fail("at", "rows", "answers that depend on the other rows of a batch", "each row by itself, as rows fill up batches",
                     "at(ids), a batch for each model")
        return differ

    def _layout(self):
        """Which models are called (None: all), `[models, rows]` the row of the batch at each place, `[B]` the place of each
        row, and whether models have rows of their own and such as fill up."""
        n, ids = self._wide.n, self._ids
        counts = torch.bincount(ids, minlength=n)
        present = counts.nonzero()[:, 0]
        slots = _power_of_two(len(present))
        models, slot_of = None, torch.arange(n)
        if 2 * slots <= n:
            models = torch.cat([present, present[:1].expand(slots - len(present))])
            slot_of[present] = torch.arange(len(present))
        else:
            slots = n
        rows = _power_of_two(int(counts.max()))
        order = ids.argsort(stable=True)
        begin = counts.cumsum(0) - counts  # start of each model's rows in this order
        place = torch.empty_like(ids)
        place[order] = slot_of[ids[order]] * rows + torch.arange(len(ids)) - begin[ids[order]]
        row = torch.zeros(slots, rows, dtype=torch.long)
        row[slot_of[present]] = order[begin[present]][:, None]
        row.view(-1)[place] = torch.arange(len(ids))
        return models, row, place, bool((counts[present] < rows).any())

    @staticmethod
    def _answers(t, count, rows, place):
        if t.shape[:2] != (count, rows):
            fail("at", "answer", tuple(t.shape[1:]), "a row for each row of the batch", "at(ids), a batch for each model")
        return t.flatten(0, 1).index_select(0, place)


def _refuse_hooks(wide):
    """Raises Error for hooks of the wide module, which only its own calls run."""
    if wide._forward_hooks or wide._forward_pre_hooks or wide._backward_hooks or wide._backward_pre_hooks:
        fail("at", "hook of the wide module", "one that calls of some models would leave out", "none", "code around wide.at(ids)(x)")


def _power_of_two(count):
    return 1 << (count - 1).bit_length()


def _no_change(changed):
    if changed:
        fail("at", "rows", "a forward that changes its buffers, which rows that fill up would enter", "one that leaves them",
             "eval() of the wide module")
