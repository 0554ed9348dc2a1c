"""The other formats of a sweep's report and the store, against its JSON: every cell, row and count."""
import csv
import html.parser
import io
import json
import re
import sqlite3
import struct
import xml.etree.ElementTree as xml

from . import tables
from .ledger import near, short

SPEEDUP_COLUMNS = {"vs_loop": "vs_loop", "vs_best_baseline": "vs_best_baseline"}
BLANK_UNTIMED = ("median_ns", "q1_ns", "q3_ns", "outliers")  # a trial without samples has no time


def _flat(case, timing):
    """Column names and values of one row."""
    row = {name: value for name, value in case.items() if not isinstance(value, (list, dict))}
    for name, value in timing.items():
        if name == "speedup":
            for over, s in (value or {}).items():
                row |= {over: s["value"], over + "_low": s["ci95"][0], over + "_high": s["ci95"][1]}
                if "name" in s:
                    row[over + "_name"] = s["name"]
        elif name == "correctness":
            row |= value or {}
        else:
            row[name] = None if name in BLANK_UNTIMED and not timing["samples_ns"] else value
    return row


def _cell(text, value):
    """Whether a cell says this value."""
    if value is None:
        return text == ""
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, str):
        return text.removeprefix("'") == value.removeprefix("'")
    if isinstance(value, list):
        return [float(x) for x in text.split()] == value
    return text != "" and float(text) == value


def audit_csv(report, text):
    errors = []
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    wanted = [(f"cases[{i}].{kind}[{k}]", _flat(case, t)) for i, case in enumerate(report["cases"])
              for kind in ("baselines", "trials") for k, t in enumerate(case[kind])]
    if len(rows) != len(wanted):
        return [f"csv: got {len(rows)} rows, expected {len(wanted)}"]
    for row, (where, values) in zip(rows, wanted):
        for name in values.keys() - row.keys():
            errors.append(f"csv {where}: no column {name}")
        for name, cell in row.items():
            if not _cell(cell, values.get(name)):
                errors.append(f"csv {where}.{name}: got {short(cell)}, expected {short(values.get(name))}")
    return errors


def _compare_table(errors, where, got, wanted):
    """`got`: head and rows of (text, number or None or nothing known)."""
    (head, rows), (wanted_head, wanted_rows) = got, wanted
    if head != wanted_head or len(rows) != len(wanted_rows):
        errors.append(f"{where}: got {len(rows)} rows of {head}, expected {len(wanted_rows)} of {wanted_head}")
        return
    for i, (row, expected) in enumerate(zip(rows, wanted_rows)):
        for name, (text, *value), (wanted_text, wanted_value) in zip(head, row, expected):
            if text != wanted_text or (value and not near(value[0], wanted_value, 0)):
                errors.append(f"{where} row {i}, {name}: got {text!r} {value}, expected {wanted_text!r} {wanted_value}")


def _environment(environment, prefix=""):
    for name, value in environment.items():
        if isinstance(value, dict):
            yield from _environment(value, f"{prefix}{name} ")
        else:
            text = "unknown" if value is None else value if isinstance(value, str) else value
            yield prefix + name, text


def _audit_environment_rows(errors, where, rows, environment):
    wanted = list(_environment(environment))
    if [row[0] for row in rows] != [name for name, _ in wanted]:
        errors.append(f"{where}: got rows {[row[0] for row in rows]}, expected {[n for n, _ in wanted]}")
        return
    for (name, text), (_, value) in zip(rows, wanted):
        same = text == value if isinstance(value, str) else json.loads(text) == value
        if not same:
            errors.append(f"{where} {name}: got {text!r}, expected {value!r}")


def audit_markdown(report, text):
    errors, found, title = [], {}, ""
    unescape = lambda cell: re.sub(r"\\(.)", r"\1", cell)
    for line in text.splitlines():
        if line.startswith("## "):
            title, fresh = unescape(line[3:]), True
        elif line.startswith("|") and not re.fullmatch(r"[|:-]+", line):
            cells = [unescape(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if fresh:
                found.setdefault(title, []).append((cells, []))
            else:
                found[title][-1][1].append([(cell,) for cell in cells])
            fresh = False
        elif not line.startswith("|"):
            fresh = True
    first = re.search(r"^(\d+) cases, (\w+), ", text, re.M)
    if not first or (int(first[1]), first[2]) != (len(report["cases"]), report["sweep"]["state"]):
        errors.append(f"md: got {first and first[0]!r}, expected {len(report['cases'])} cases")
    _compare_table(errors, "md summary", found["Summary"][0], tables.summary(report))
    for target, cases in tables.by_target(report["cases"]).items():
        wanted = [tables.timings(cases), tables.crossover(cases), tables.reasons(cases)]
        wanted = [table for table in wanted if table[1] or table[0] != wanted[2][0]]
        if len(found.get(target, [])) != len(wanted):
            errors.append(f"md {target}: got {len(found.get(target, []))} tables, expected {len(wanted)}")
            continue
        for table, expected in zip(found[target], wanted):
            _compare_table(errors, f"md {target}", table, expected)
    rows = [[cell[0] for cell in row] for row in found["Environment"][0][1]]
    _audit_environment_rows(errors, "md environment", rows, report["environment"])
    _audit_disturbed(errors, "md", text, report)
    return errors


def _audit_disturbed(errors, where, text, report):
    line = tables.disturbed_line(report["cases"])
    if (line is None and "disturbed, UNCLEAR" in text) or (line is not None and line not in text):
        errors.append(f"{where}: what is disturbed, expected {line!r}")


class _Page(html.parser.HTMLParser):
    """Tables of a page: (kind, head, rows of (text, number))."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.cell, self.texts = [], None, []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "table":
            self.tables.append((attrs["data-kind"], []))
        elif tag == "tr":
            self.tables[-1][1].append([])
        elif tag in ("td", "th"):
            self.cell = ["", float(attrs["data-v"]) if "data-v" in attrs else None]
            self.tables[-1][1][-1].append(self.cell)

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None

    def handle_data(self, data):
        self.texts.append(data)
        if self.cell is not None:
            self.cell[0] += data

    def of(self, kind):
        return [([cell[0] for cell in rows[0]], [[tuple(cell) for cell in row] for row in rows[1:]])
                for name, rows in self.tables if name == kind]


def audit_html(report, text):
    errors, page = [], _Page(text)
    groups = list(tables.by_target(report["cases"]).values())
    wanted = {"summary": [tables.summary(report)], "timings": [tables.timings(g) for g in groups],
              "crossover": [tables.crossover(g) for g in groups],
              "reasons": [r for r in (tables.reasons(g) for g in groups) if r[1]]}
    for kind, expected in wanted.items():
        got = page.of(kind)
        if len(got) != len(expected):
            errors.append(f"html: got {len(got)} tables of {kind}, expected {len(expected)}")
        for i, (table, rows) in enumerate(zip(got, expected)):
            _compare_table(errors, f"html {kind} {i}", table, rows)
    unknown = {kind for kind, _ in page.tables} - {*wanted, "environment"}
    errors += [f"html: nobody audits the table of {kind}" for kind in unknown]
    rows = [[cell[0] for cell in row] for row in page.of("environment")[0][1]]
    _audit_environment_rows(errors, "html environment", rows, report["environment"])
    if f"{len(report['cases'])} cases, {report['sweep']['state']}" not in text:
        errors.append("html: the number of cases is not said")
    _audit_disturbed(errors, "html", "".join(page.texts), report)
    return errors


JUNIT = {"ok": None, "incorrect": "failure", "unsupported": "skipped", "cancelled": "skipped",
         "skipped": "skipped", "interrupted": "skipped"}


def audit_junit(report, text):
    errors, root = [], xml.fromstring(text)

    def same(where, got, expected, relative=0):
        if not near(got, expected, relative):
            errors.append(f"junit {where}: got {got!r}, expected {expected!r}")

    def element(trial):
        return JUNIT.get(trial["status"], "error")

    def seconds(trial):
        return sum(trial["samples_ns"]) * trial["calls_per_sample"] * 1e-9

    def counts(where, suite, trials):
        for name, tag in (("tests", None), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            wanted = len(trials) if tag is None else sum(element(t) == tag for t in trials)
            same(f"{where} {name}", int(suite.get(name)), wanted)
        if abs(float(suite.get("time")) - sum(map(seconds, trials))) > 1e-6:
            same(f"{where} time", float(suite.get("time")), sum(map(seconds, trials)))

    counts("all", root, [t for c in report["cases"] for t in c["trials"]])
    groups = tables.by_target(report["cases"])
    suites = list(root.iter("testsuite"))
    same("suites", [s.get("name") for s in suites], list(groups))
    for suite, cases in zip(suites, groups.values()):
        trials = [(c, t) for c in cases for t in c["trials"]]
        counts(suite.get("name"), suite, [t for _, t in trials])
        found = list(suite.iter("testcase"))
        same(suite.get("name"), len(found), len(trials))
        for case, (c, t) in zip(found, trials):
            where = case.get("name")
            same(where, where, " ".join([t["strategy"], f"n={c['n']}", c["shape"], *(c[k] for k in tables.TRAITS)]))
            if abs(float(case.get("time")) - seconds(t)) > 1e-6:
                same(where + " time", float(case.get("time")), seconds(t))
            wanted = {"status": t["status"]}
            if t["samples_ns"]:
                wanted["median_ns"] = t["median_ns"]
            if c["disturbed"]:
                wanted["disturbed"] = c["other_load"]
            if c.get("machine"):
                wanted["machine"] = c["machine"]
            if t["correctness"]:
                wanted["max_rel"] = t["correctness"]["max_rel"]
            for name, s in (t["speedup"] or {}).items():
                wanted[name] = s["value"]
            if t["speedup"]:
                wanted["verdict"] = t["verdict"]
            got = {p.get("name"): p.get("value") for p in case.iter("property")}
            same(where, sorted(got), sorted(wanted))
            for name in got.keys() & wanted.keys():
                value = wanted[name]
                same(f"{where} {name}", got[name] if isinstance(value, str) else float(got[name]), value)
            same(where, [e.tag for e in case if e.tag != "properties"], [element(t)] if element(t) else [])
    return errors


def _unpacked(blob):
    return list(struct.unpack(f">{len(blob) // 8}d", blob))


def _samples(store, of_timing):
    return _unpacked(store.execute("SELECT ns FROM samples WHERE timing = ?", [of_timing]).fetchone()[0])


def _same_row(errors, where, row, wanted, left_out=()):
    """Columns and what lies in `more`, against the JSON."""
    got = {name: value for name, value in dict(row).items() if name not in ("more", *left_out)}
    got |= json.loads(row["more"]) if "more" in row.keys() else {}
    for name in got.keys() | wanted.keys():
        a, b = got.get(name), wanted.get(name)
        if isinstance(b, bool) and isinstance(a, int):
            a = bool(a)
        if isinstance(a, str) and isinstance(b, (list, dict)):
            a = json.loads(a)
        if not near(a, b, 0) and a != b:
            errors.append(f"store {where} {name}: got {short(a)}, expected {short(b)}")


def _timing_json(t):
    own = ("speedup", "correctness", "strategy", "status", "reason", "chosen", "verdict", "samples_ns")
    return {name: value for name, value in t.items() if name not in own}


def open_store(path):
    store = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    store.row_factory = sqlite3.Row
    return store


def audit_store(report, path):
    """The rows of the sweep whose number is the report's id."""
    errors, store = [], open_store(path)
    sweep = store.execute("SELECT * FROM sweep WHERE id = ?", [int(report["sweep"]["id"])]).fetchone()
    for name in ("name", "command", "state"):
        if sweep[name] != report["sweep"][name]:
            errors.append(f"store sweep {name}: got {sweep[name]!r}, expected {report['sweep'][name]!r}")
    cases = store.execute('SELECT * FROM "case" WHERE sweep = ? ORDER BY position', [sweep["id"]]).fetchall()
    if len(cases) != len(report["cases"]):
        errors.append(f"store: got {len(cases)} cases, expected {len(report['cases'])}")
    for i, (row, case) in enumerate(zip(cases, report["cases"])):
        plain = {k: v for k, v in case.items() if k not in ("baselines", "trials")}
        _same_row(errors, f"case {i}", row, plain, ("id", "sweep", "position", "state", "strategies"))
        alone = store.execute('SELECT * FROM timing WHERE "case" = ? AND trial IS NULL ORDER BY position',
                              [row["id"]]).fetchall()
        if len(alone) != len(case["baselines"]):
            errors.append(f"store case {i}: got {len(alone)} baselines, expected {len(case['baselines'])}")
        for k, (t, b) in enumerate(zip(alone, case["baselines"])):
            _audit_timing_row(errors, store, f"case {i} baseline {k}", t, b)
        trials = store.execute('SELECT * FROM trial WHERE "case" = ? ORDER BY position', [row["id"]]).fetchall()
        if len(trials) != len(case["trials"]):
            errors.append(f"store case {i}: got {len(trials)} trials, expected {len(case['trials'])}")
        for k, (t, wanted) in enumerate(zip(trials, case["trials"])):
            _audit_trial_row(errors, store, f"case {i} trial {k}", t, wanted)
    return errors


def _audit_timing_row(errors, store, where, row, t):
    _same_row(errors, where, row, _timing_json(t), ("id", "case", "trial", "position", "fuse_point"))
    if _samples(store, row["id"]) != t["samples_ns"]:
        errors.append(f"store {where}: other samples")


def _audit_trial_row(errors, store, where, row, t):
    flat = {name: t[name] for name in ("strategy", "status", "reason", "chosen", "verdict")}
    for column, name in (("vs_loop", "vs_loop"), ("vs_best", "vs_best_baseline")):
        s = (t["speedup"] or {}).get(name) or {"value": None, "ci95": [None, None]}
        flat |= {column: s["value"], column + "_low": s["ci95"][0], column + "_high": s["ci95"][1]}
    flat["best_baseline"] = ((t["speedup"] or {}).get("vs_best_baseline") or {}).get("name")
    _same_row(errors, where, row, flat, ("id", "case", "position"))
    timing = store.execute("SELECT * FROM timing WHERE trial = ?", [row["id"]]).fetchone()
    _audit_timing_row(errors, store, where, timing, t)
    checked = store.execute("SELECT * FROM correctness WHERE trial = ?", [row["id"]]).fetchone()
    if (checked is None) != (t["correctness"] is None):
        errors.append(f"store {where}: a check is in one of the two alone")
    elif checked is not None:
        _same_row(errors, where, checked, t["correctness"], ("id", "trial", "fuse_point"))


def audit_fusion_store(report, path, fuse):
    """The rows of a fusion; the coverage is counted again from those of its nodes."""
    errors, store = [], open_store(path)
    points = store.execute("SELECT * FROM fuse_point WHERE fuse = ? ORDER BY position", [fuse]).fetchall()
    curve = report.get("curve", [report])
    if len(points) != len(curve):
        errors.append(f"store: got {len(points)} points, expected {len(curve)}")
    for row, point in zip(points, curve):
        where, of = f"fusion n={point['n']}", [row["id"]]
        counted = dict.fromkeys(point["coverage"], 0)
        for way, nodes in store.execute("SELECT way, nodes FROM node WHERE fuse_point = ?", of):
            counted[way] = counted.get(way, 0) + nodes
        kept = {r["way"]: r["nodes"] for r in store.execute("SELECT * FROM coverage WHERE fuse_point = ?", of)}
        times = {r["way"]: r["time"] for r in store.execute("SELECT * FROM coverage WHERE fuse_point = ?", of)}
        for name, got in (("nodes", counted), ("coverage", kept)):
            if got != point["coverage"]:
                errors.append(f"store {where} {name}: got {got}, expected {point['coverage']}")
        if point["coverage_time"] is not None and times != point["coverage_time"]:
            errors.append(f"store {where} coverage_time: got {times}, expected {point['coverage_time']}")
        alone = [(n["node"], n["operator"], n["reason"]) for n in store.execute(
            "SELECT * FROM node WHERE fuse_point = ? ORDER BY position", of) if n["way"] == "per_model" or n["reason"]]
        if alone != [(f["node"], f["operator"], f["reason"]) for f in point["fallbacks"]]:
            errors.append(f"store {where}: other fallbacks")
        rows = store.execute("SELECT * FROM timing WHERE fuse_point = ? ORDER BY position", of).fetchall()
        for k, (t, wanted) in enumerate(zip(rows, point["results"])):
            _audit_timing_row(errors, store, f"{where} result {k}", t, wanted)
        checked = store.execute("SELECT * FROM correctness WHERE fuse_point = ?", of).fetchone()
        _same_row(errors, where, checked, point["correctness"], ("id", "trial", "fuse_point"))
        flat = {"n": point["n"], "chosen": point["chosen"], "first_call_ns": point["first_call_ns"], **point["memory"]}
        s = point["speedup"] or {}
        for column, name in (("vs_loop", "vs_loop"), ("vs_best", "vs_best_baseline")):
            low, high = s.get(name + "_ci95", (None, None))
            flat |= {column: s.get(name), column + "_low": low, column + "_high": high}
        flat["best_baseline"] = s.get("best_baseline")
        _same_row(errors, where, {**dict(row), "more": "{}"}, flat, ("id", "fuse", "position"))
    return errors
