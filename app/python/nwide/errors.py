"""The one kind of error: a line `[thing] what: got X, expected Y; try Z`."""

from ._core import Error


def fail(thing, what, got, expected, advice):
    raise Error(f"[{thing}] {what}: got {got}, expected {expected}; try {advice}")


def one_line(error):
    """The first line of what an exception says."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


__all__ = ["Error", "fail", "one_line"]
