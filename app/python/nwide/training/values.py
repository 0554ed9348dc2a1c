"""Values of a hyperparameter other than one number: ranges, draws, zipped lists."""

import dataclasses
import numbers

from ..errors import fail


@dataclasses.dataclass(frozen=True)
class Range:
    """`count` values from `low` to `high`; without a count, one for each model."""

    kind: str  # log, lin, loguniform or uniform, as in the command
    low: float
    high: float
    count: int | None = None

    def text(self):
        return f"{self.kind}:{self.low!r}..{self.high!r}" + (f":{self.count}" if self.count else "")


@dataclasses.dataclass(frozen=True)
class Together:
    """What `nw.zip` returns: lists of equal length; configuration i takes the i-th value of each."""

    values: dict


def _range(kind, low, high, n):
    name = f"nw.{kind}"
    low, high, n = plain(low), plain(high), plain(n)
    for end in (low, high):
        if not isinstance(end, numbers.Real) or isinstance(end, bool):
            fail(name, "end", repr(end), "a number", f"{name}(1e-4, 1e-1)")
    if n is not None and (type(n) is not int or n < 1):
        fail(name, "n", repr(n), "a whole number of at least 1", f"{name}({low}, {high}, 8)")
    return Range(kind, float(low), float(high), n)


def log(low: float, high: float, n: int | None = None) -> Range:
    """`n` values spaced evenly by their logarithm, both ends included."""
    return _range("log", low, high, n)


def lin(low: float, high: float, n: int | None = None) -> Range:
    """`n` values spaced evenly, both ends included."""
    return _range("lin", low, high, n)


def loguniform(low: float, high: float, n: int | None = None) -> Range:
    """`n` values drawn log-uniformly between `low` and `high`; equal seeds give equal values."""
    return _range("loguniform", low, high, n)


def uniform(low: float, high: float, n: int | None = None) -> Range:
    """`n` values drawn uniformly between `low` and `high`; equal seeds give equal values."""
    return _range("uniform", low, high, n)


def zip(**values) -> Together:
    """Values side by side, where lists as arguments of their own would be crossed:
    `nw.train(..., nw.zip(lr=[1e-3, 1e-2], weight_decay=[0.1, 0]))` is two configurations."""
    counts = {name: count_of(value) for name, value in values.items()}
    if not values or None in counts.values():
        odd = next((name for name, count in counts.items() if count is None), "values")
        fail("nw.zip", odd, repr(values.get(odd, "none")), "a list, or a range that says how many", "nw.log(1e-4, 1e-1, 8)")
    first = next(iter(counts))
    for name, count in counts.items():
        if count != counts[first]:
            fail("nw.zip", name, f"{count} values", f"{counts[first]} as {first} has", "lists of equal length")
    return Together(dict(values))


def plain(value):
    """A number of NumPy or torch as Python's; anything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def count_of(value):
    """How many values there are; None for one value for all models, or a range without a count."""
    if isinstance(value, Range):
        return value.count
    return len(value) if is_list(value) else None


def is_list(value):
    """Lists, tuples, range, arrays and tensors of one dimension."""
    if isinstance(value, (list, tuple, range)):
        return True
    return hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1


def number_text(key, value):
    """The number as text for the command line, with all digits that it takes to read it back."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, numbers.Real):
        fail("train", key, repr(value), "a number, a list of numbers or a range", f"{key}=nw.log(1e-4, 1e-1, 8)")
    return repr(int(value) if isinstance(value, numbers.Integral) else float(value))


def text_of(key, value):
    if isinstance(value, Range):
        return value.text()
    if is_list(value):
        if not len(value):
            fail("train", key, "an empty list", "at least one value", f"{key}=[1e-3]")
        return ",".join(number_text(key, v) for v in value)
    return number_text(key, value)
