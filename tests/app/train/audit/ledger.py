"""A document whose every field is put into one of three classes, and what was found wrong with it."""
import math

import numpy

RECOMPUTED = "recomputed from checkpoints and data"
LOOPED = "recomputed by an independent loop"
CONSISTENT = "held for consistency"


def leaves(value, path=()):
    """(path, value) of all that is neither an object nor a list; empty ones are leaves too."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, (list, tuple)) and value:
        for key, inner in enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def same(got, wanted, tolerance):
    """Whether two leaves agree; NaN and None are equal to themselves alone."""
    if isinstance(wanted, numpy.ndarray) or isinstance(got, numpy.ndarray):
        got, wanted = numpy.asarray(got), numpy.asarray(wanted)
        if got.shape != wanted.shape or (got.dtype.kind in "iu") != (wanted.dtype.kind in "iu"):
            return False
        if got.dtype.kind in "iu":
            return bool((got == wanted).all())
        gone = numpy.isnan(wanted)
        if not (numpy.isnan(got) == gone).all():
            return False
        return bool((abs(numpy.where(gone, 0, got) - numpy.where(gone, 0, wanted)) <= tolerance).all())
    if isinstance(wanted, float) and isinstance(got, (int, float)) and not isinstance(got, bool):
        if math.isnan(wanted) or math.isinf(wanted):
            return got == wanted or (math.isnan(wanted) and math.isnan(got))
        return abs(got - wanted) <= tolerance
    return type(got) == type(wanted) and got == wanted


class Ledger:
    """Each field of `document` is asked for once: by what it is expected to be, or by what has to hold of it."""

    def __init__(self, name, document, findings):
        self.name, self.findings = name, findings
        self.fields = dict(leaves(document))
        self.classes = {}

    def found(self, path, what):
        self.findings.append(f"{self.name} {'.'.join(map(str, path))}: {what}")

    def claim(self, kind, path):
        """Whether the field is there; it is of the class `kind` from here on."""
        if path not in self.fields:
            self.found(path, f"is missing ({kind})")
            return False
        if path in self.classes:
            self.found(path, f"is {self.classes[path]} and {kind}")
        self.classes[path] = kind
        return True

    def expect(self, kind, path, wanted, tolerance=0.0):
        """`wanted` may be an object or a list: then the field has to have all of it and no more."""
        path = tuple(path)
        if isinstance(wanted, (dict, list, tuple)):
            for inner, value in leaves(wanted):  # an empty one is a leaf
                self.expect_leaf(kind, (*path, *inner), value, tolerance)
        else:
            self.expect_leaf(kind, path, wanted, tolerance)

    def expect_leaf(self, kind, path, wanted, tolerance):
        if self.claim(kind, path) and not same(self.fields[path], wanted, tolerance):
            self.found(path, f"got {self.fields[path]!r}, expected {wanted!r} within {numpy.max(tolerance):.2g} ({kind})")

    def hold(self, path, condition, what):
        """`condition` of the field's value; True, or an error counts as False."""
        path = tuple(path)
        if not self.claim(CONSISTENT, path):
            return
        try:
            held = condition(self.fields[path])
        except (TypeError, ValueError, KeyError):
            held = False
        if not held:
            self.found(path, f"got {self.fields[path]!r}, expected {what} ({CONSISTENT})")

    def close(self):
        for path in self.fields:
            if path not in self.classes:
                self.found(path, "is in none of the three classes")
