"""Which fields of a report were audited, how, and what was wrong."""
import math
import re

# The three classes of a field.
RECOMPUTED = "recomputed"    # from the samples and other primary data in the report
INDEPENDENT = "independent"  # computed by somebody else: PyTorch, the system, a formula of the shape
HELD = "held"                # held for consistency with other fields and with what can be at all


def leaves(value, path=""):
    """(path, value) of all that holds no further fields. Lists of numbers and empty lists are one leaf."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        for i, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{i}]")
    else:
        yield path, value


def pattern(path):
    """`cases[3].trials[0].name` as `cases[].trials[].name`."""
    return re.sub(r"\[\d+\]", "[]", path)


def near(got, expected, relative=1e-9):
    """Equal, as numbers to a relative tolerance; None and NaN equal themselves alone."""
    if isinstance(got, list) and isinstance(expected, (list, tuple)):
        return len(got) == len(expected) and all(near(a, b, relative) for a, b in zip(got, expected))
    number = lambda x: isinstance(x, (int, float)) and not isinstance(x, bool)
    if number(got) and number(expected):
        if math.isnan(got) or math.isnan(expected):
            return math.isnan(got) and math.isnan(expected)
        return got == expected or abs(got - expected) <= relative * max(abs(got), abs(expected))
    return type(got) is type(expected) and got == expected


class Ledger:
    """Collects what was looked at. Every leaf must have been, as the class that `classes` gives it."""

    def __init__(self, classes):
        self.classes, self.seen, self.errors = classes, {}, []

    def fail(self, path, what):
        self.errors.append(f"{path}: {what}")

    def _mark(self, path, kind):
        self.seen[path] = kind
        wanted = self.classes.get(pattern(path))
        if wanted != kind:
            self.fail(path, f"was {kind}, is listed as {wanted}")

    def _compare(self, path, got, expected, kind, relative):
        self._mark(path, kind)
        if not near(got, expected, relative):
            self.fail(path, f"got {short(got)}, expected {short(expected)}")

    def recomputed(self, path, got, expected, relative=1e-9):
        self._compare(path, got, expected, RECOMPUTED, relative)

    def independent(self, path, got, expected, relative=1e-9):
        self._compare(path, got, expected, INDEPENDENT, relative)

    def within(self, path, got, low, high, kind=INDEPENDENT):
        """For what is known to a range alone."""
        self._mark(path, kind)
        if not (got is not None and low <= got <= high):
            self.fail(path, f"got {short(got)}, expected {short(low)} to {short(high)}")

    def held(self, path, good, what="is inconsistent"):
        self._mark(path, HELD)
        if not good:
            self.fail(path, what)

    def finish(self, report):
        """The errors; fields that nobody looked at are among them."""
        for path, value in leaves(report):
            if path not in self.seen:
                self.fail(path, f"got {short(value)}, which nobody audits")
        return self.errors


def short(value):
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
