"""nw.Error, the error class of this package: one line, `[thing] what: got X, expected Y; try Z`."""

from ._core import Error


def fail(thing, what, got, expected, advice):
    raise Error(f"[{thing}] {what}: got {got}, expected {expected}; try {advice}")


def one_line(error):
    """The first line of an exception's message."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


__all__ = ["Error", "fail", "one_line"]
