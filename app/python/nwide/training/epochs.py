"""Training rows that change in every epoch (a DataLoader, or a function that changes batches): written beside the run,
one epoch ahead of it."""

import functools
import os
import threading
import time

import torch

from ..errors import fail
from ..recording import untouched_randomness
from . import tensor_files


def read_loader(loader):
    """All rows of a DataLoader, in its order, nested like its batches."""
    batches = list(loader)
    if not batches:
        fail("data", "rows", "an empty DataLoader", "some rows", "another one")
    size = loader.batch_size
    sizes = [len(next(iter(_parts(batch).values()))) for batch in batches]
    if size is None or any(s != size for s in sizes[:-1]) or sizes[-1] > size:
        fail("data", "batches", f"{', '.join(map(str, dict.fromkeys(sizes)))} rows", "batch_size rows in each but the last",
             "a DataLoader without a batch_sampler")
    parts = [_parts(batch) for batch in batches]
    try:
        joined = {name: torch.cat([torch.as_tensor(part[name]) for part in parts]) for name in parts[0]}
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        fail("data", "batches", str(error).split("\n")[0], "tensors of one shape but for the rows", "a collate_fn that makes them")
    return joined if isinstance(batches[0], dict) else tuple(joined.values())


def _parts(batch):
    if isinstance(batch, dict):
        return batch
    return dict(enumerate(batch if isinstance(batch, (tuple, list)) else [batch]))


def changed(columns, function, size, learned):
    """Applies `function` to batches of `size` of the rows with the numbers `learned`, in this order: it gets a dict of columns and
    returns the changed ones. Other rows stay as they are."""
    made = {}
    for rows in learned.split(size):
        batch = {name: values[rows] for name, values in columns.items()}
        given = function(batch)
        if not isinstance(given, dict) or not given.keys() <= columns.keys():
            got = ", ".join(map(str, given)) if isinstance(given, dict) else type(given).__name__
            fail("train", "augment", got, f"a dict of columns that it changes, of {', '.join(columns)}",
                 "return {'x': ...}")
        for name, values in given.items():
            if not isinstance(values, torch.Tensor) or values.shape != batch[name].shape:
                fail("train", f"augment {name}", tuple(getattr(values, "shape", ())), f"{tuple(batch[name].shape)} as it got",
                     "as many rows, of the same shape")
            made.setdefault(name, []).append((rows, values.detach()))
    return {**columns, **{name: _with_rows(columns[name], parts) for name, parts in made.items()}}


def _with_rows(values, parts):
    """A column with these rows instead of its own, in a dtype that represents all."""
    kind = functools.reduce(torch.promote_types, (numbers.dtype for _, numbers in parts), values.dtype)
    new = values.to(kind, copy=True)
    for rows, numbers in parts:
        new[rows] = numbers.to(new)
    return new


class Epochs:
    """`make`: returns an epoch's columns; draws depend on the seed and the epoch alone. They use torch's random state of the
    process: no other Python code may draw random numbers between `begin` and `finish`."""

    def __init__(self, make, folder, seed):
        self.make, self.folder, self.seed = make, folder, seed
        self.waited, self.thread, self.failure = 0.0, None, None
        os.makedirs(folder)
        self._write(0)
        self._raise()

    def begin(self, epoch):
        """Starts a thread that makes the rows of `epoch`. Removes those of two epochs before, except the first,
        which the command reads again to estimate the time of separate runs."""
        if epoch > 2:
            os.remove(self._path(epoch - 2))
        self.thread = threading.Thread(target=self._write, args=(epoch,), daemon=True)
        self.thread.start()

    def finish(self):
        """Waits until the rows that `begin` started are written."""
        begun = time.monotonic()
        if self.thread:
            self.thread.join()
            self.thread = None
        self.waited += time.monotonic() - begun
        self._raise()

    def _write(self, epoch):
        try:
            with untouched_randomness(self.seed + epoch):
                tensor_files.save(self._path(epoch), self.make(epoch))
        except BaseException as error:  # raised again in the caller's thread
            self.failure = error

    def _raise(self):
        if self.failure:
            raise self.failure

    def _path(self, epoch):
        return os.path.join(self.folder, f"{epoch}.safetensors")
