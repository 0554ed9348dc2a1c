"""Functions of PyTorch that cannot be followed while this thread records a forward pass, and are refused by name."""

import contextlib
import functools
import threading

import torch
from torch import _VF

from .errors import fail

_THREAD = threading.local()
seed_torch = torch.manual_seed  # the function itself


@contextlib.contextmanager
def recording():
    """A context in which this thread records."""
    _THREAD.records = True
    try:
        yield
    finally:
        _THREAD.records = False


def _guarded(plain, *message):
    @functools.wraps(plain)
    def guarded(*args, **kwargs):
        if getattr(_THREAD, "records", False):
            fail("forward", *message)
        return plain(*args, **kwargs)
    return guarded


# A recorded program would not seed again.
torch.manual_seed = torch.random.manual_seed = _guarded(
    seed_torch, "torch.manual_seed", "a call of it", "random numbers that every call draws anew", "a buffer with numbers drawn before")
# Recurrent kernels read how many sequences go on at each step, which a recording does not know.
_VF._pack_padded_sequence = _guarded(
    _VF._pack_padded_sequence, "pack_padded_sequence", "a packed sequence", "a padded batch",
    "the recurrent layer on the padded batch, and torch.gather of its outputs at lengths - 1")
