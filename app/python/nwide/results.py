"""Results about a wide program: coverage, steps, validation, benchmark. They display as tables in a notebook."""

import collections
import dataclasses
import html

COLOURS = {"strategy": "#2a7f62", "vmap": "#5b8fc7", "shared": "#9aa5b1", "per_model": "#d17b34"}


def time_text(nanoseconds):
    for unit, size in (("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)):
        if nanoseconds < 999.5 * size or unit == "s":
            return f"{nanoseconds / size:.3g} {unit}"


class _Rows(list):
    """Rows that are shown as a table, as text and in a notebook."""

    columns = ()

    def cells(self, row):
        return [str(row[c]) for c in self.columns]

    def __repr__(self):
        rows = [list(self.columns), *(self.cells(row) for row in self)]
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows)

    def _repr_html_(self):
        head = "".join(f"<th>{html.escape(c)}</th>" for c in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in self.cells(row)) + "</tr>" for row in self)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Coverage(_Rows):
    """How each recorded operator was made wide."""

    columns = ("module", "operator", "primitive", "strategy", "reason")

    @property
    def counts(self) -> dict[str, int]:
        """Operators by way: strategy, vmap, shared (once for all), per_model (one by one)."""
        counted = collections.Counter(dict.fromkeys(COLOURS, 0))
        for row in self:
            counted[row["way"]] += row["nodes"]
        return dict(counted)

    def _repr_html_(self):
        counts = self.counts
        total = max(sum(counts.values()), 1)
        bar = "".join(f'<span title="{way}: {count}" style="display:inline-block;height:1em;background:{COLOURS[way]};'
                      f'width:{100 * count / total:.1f}%"></span>' for way, count in counts.items() if count)
        words = ", ".join(f"{way} {count}" for way, count in counts.items())
        return f'<div style="width:30em">{bar}</div><div>{words}</div>{super()._repr_html_()}'


class Steps(_Rows):
    """The steps of the wide program, in order, with the time of each."""

    columns = ("module", "operator", "strategy", "shape", "median", "share")

    def cells(self, row):
        return [row["module"], row["operator"], row["strategy"], row["shape"], time_text(row["median_ns"]),
                f"{100 * row['share']:.0f} %"]


@dataclasses.dataclass(frozen=True)
class Validation:
    """The comparison with N separate models in float64. True (as a bool) if everything holds."""

    max_rel: float  # max|wide - ref| / max|ref|, the worst over outputs and models
    eager_max_rel: float  # the same of the N separate models in their own dtype
    tolerance: float
    isolated: bool  # no model affects another
    ordered: bool  # permuting the models permutes the outputs
    passed: bool
    note: str
    failure: str
    equal: tuple[tuple[int, ...], ...] = ()  # models whose parameters are all equal: one start given to several
    held_once: tuple[str, ...] = ()  # parameters that all models hold as one tensor, so that they train together

    def __bool__(self):
        return self.passed


class Benchmark(_Rows):
    """Times of the wide program and its baselines; speedups with 95 % intervals."""

    columns = ("name", "median", "quartiles", "over loop", "over best", "error", "verdict")

    def __repr__(self):
        return "\n".join([super().__repr__(), *(note.split(":")[0] for note in self.case.get("notes", []))])

    def __init__(self, case):
        self.case = case  # as in the reports' JSON
        self.trial = case["trials"][0]
        super().__init__([*case["baselines"], self.trial])

    @property
    def passed(self) -> bool:
        return self.trial["status"] == "ok"

    def cells(self, row):
        own = row is self.trial
        name = row["strategy"] if own else row["name"]
        if not row["median_ns"]:
            return [name, "", "", "", "", "", f"{row.get('status', '')}: {row.get('reason', '')}"]
        cells = [name, time_text(row["median_ns"]), f"{time_text(row['q1_ns'])} to {time_text(row['q3_ns'])}"]
        speedup = row.get("speedup") if own else None
        for key in ("vs_loop", "vs_best_baseline"):
            ratio = (speedup or {}).get(key)
            cells.append(f"{ratio['value']:.2f}x [{ratio['ci95'][0]:.2f}, {ratio['ci95'][1]:.2f}]"
                         + (f" {ratio['name']}" if "name" in ratio else "") if ratio else "")
        error = row.get("correctness", {}).get("max_rel") if own else None
        disturbed = ", disturbed" if self.case.get("disturbed") else ""  # by other programs, as the commands say
        verdict = (row.get("verdict") or row.get("reason") or row["status"]) + disturbed if own else ""
        return [*cells, "" if error is None else f"{error:.1e}", verdict]

    def _repr_html_(self):
        slowest = max((row["median_ns"] or 0 for row in self), default=0) or 1
        lines = []
        for i, row in enumerate(self):
            own, y = row is self.trial, 22 * i
            low, middle, high = ((row[k] or 0) / slowest * 300 for k in ("q1_ns", "median_ns", "q3_ns"))
            colour = COLOURS["strategy"] if own else COLOURS["shared"]
            lines.append(f'<text x="0" y="{y + 14}">{html.escape(self.cells(row)[0])}</text>'
                         f'<rect x="80" y="{y + 3}" width="{middle:.1f}" height="14" fill="{colour}"/>'
                         f'<line x1="{80 + low:.1f}" x2="{80 + high:.1f}" y1="{y + 10}" y2="{y + 10}" stroke="black"/>'
                         f'<text x="{86 + max(middle, high):.1f}" y="{y + 14}">{self.cells(row)[1]}</text>')
        height = 22 * len(self)
        svg = (f'<svg width="480" height="{height}" viewBox="0 0 480 {height}" font-family="sans-serif" '
               f'font-size="12">{"".join(lines)}</svg>')
        notes = "".join(f"<div>{html.escape(note)}</div>" for note in self.case.get("notes", []))
        return f"{svg}{super()._repr_html_()}{notes}"
