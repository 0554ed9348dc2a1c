"""Every format of a sweep's report says what its JSON says, number by number, and parses."""
import csv
import html.parser
import io
import glob
import json
import math
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

try:
    import jsonschema
    import referencing
except ImportError as error:
    print(f"needs jsonschema: {error}")
    sys.exit(1)

BINARY = os.environ["WORKBENCH_BINARY"]
SCHEMAS = os.path.join(os.environ["WORKBENCH_SOURCE"], "data", "reports", "schema")
HOSTILE = "<script>alert(1)</script> \"q\" 'a' & | `x` *b* _c_ [l](u) =1+1, ü"


STORE = tempfile.TemporaryDirectory()
DB = os.path.join(STORE.name, "results.db")


def workbench(*arguments):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "WORKBENCH_DB": DB})


def schema(name):
    resources = []
    for file in glob.glob(os.path.join(SCHEMAS, "*.json")):
        with open(file, encoding="utf-8") as text:
            resource = json.load(text)
        jsonschema.Draft202012Validator.check_schema(resource)
        resources.append((resource["$id"], referencing.Resource.from_contents(resource)))
    registry = referencing.Registry().with_resources(resources)
    return jsonschema.Draft202012Validator(registry.contents(name), registry=registry)


class Tables(html.parser.HTMLParser):
    """Rows of (text, data-v) by the table's data-kind."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.scripts, self.cell, self.open = [], 0, None, []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.scripts += tag == "script"
        if tag == "table":
            self.tables.append((attrs["data-kind"], []))
        elif tag == "tr":
            self.tables[-1][1].append([])
        elif tag in ("td", "th"):
            self.cell = ["", attrs.get("data-v")]
            self.tables[-1][1][-1].append(self.cell)

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell[0] += data

    def dicts(self, kind):
        for name, rows in self.tables:
            if name == kind:
                head = [cell[0] for cell in rows[0]]
                for row in rows[1:]:
                    yield dict(zip(head, row))


def kind(element):
    return element.get("data-kind", "")


def groups(element, name):
    return [g for g in element.iter() if kind(g) == name]


def centre(group):
    """Of the marker that a group holds."""
    for shape in group.iter():
        tag = shape.tag.split("}")[1]
        if tag == "circle":
            return float(shape.get("cx")), float(shape.get("cy"))
        if tag in ("polygon", "path"):
            numbers = [float(x) for x in re.findall(r"-?[\d.]+", shape.get("points") or shape.get("d"))]
            xs, ys = numbers[0::2], numbers[1::2]
            return sum(xs) / len(xs), sum(ys) / len(ys)
    raise AssertionError("no marker")


def scale(ticks, offset, along):
    """The logarithmic axis that its labelled ticks describe: value to pixel."""
    points = []
    for text in ticks.iter("{http://www.w3.org/2000/svg}text"):
        try:
            points.append((math.log(float(text.text.rstrip("×"))), float(text.get(along)) + offset))
        except ValueError:
            pass  # "N models", or 0
    (a, x), (b, y) = points[0], points[-1]
    return lambda value: x + (math.log(value) - a) / (b - a) * (y - x)


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.sweep = cls.path("sweep.json")
        run = workbench("sweep", "ci", "--targets", "linear,embedding", "-n", "2,3,5", "--budget",
                        "0.01", "--quiet", "--no-store", "--json", cls.sweep)
        assert run.returncode == 0, run.stderr
        with open(cls.sweep, encoding="utf-8") as file:
            cls.plain = json.load(file)
        # The same sweep with what a healthy one lacks.
        cls.data = json.loads(json.dumps(cls.plain))
        cases = cls.data["cases"]
        cls.spoil(cases[0]["trials"][0], "incorrect", "output 0: relative error 0.3")
        cases[0]["trials"][0]["correctness"]["max_rel"] = 0.3
        cls.spoil(cases[1]["trials"][1], "crashed", "signal 11")
        cls.spoil(cases[2]["trials"][1], "timeout", "after 60 s")
        cls.spoil(cases[3]["trials"][0], "unsupported", HOSTILE)
        cls.spoil(cases[4]["trials"][0], "cancelled", "")
        for case in cases[3:]:
            case["target"] = HOSTILE
            for trial in case["trials"][1:2]:
                trial["strategy"] = trial["name"] = HOSTILE
        cls.data["sweep"]["name"] = cls.data["environment"]["host"] = HOSTILE
        with open(cls.path("hard.json"), "w", encoding="utf-8") as file:
            json.dump(cls.data, file)
        options = []
        for name in ("json", "csv", "md", "html", "svg", "junit"):
            options += ["--" + name, cls.path("out." + name)]
        run = workbench("report", cls.path("hard.json"), *options)
        assert (run.returncode, run.stdout, run.stderr) == (0, "", ""), run
        with open(cls.path("out.json"), encoding="utf-8") as file:
            cls.report = json.load(file)

    @staticmethod
    def spoil(trial, status, reason):
        trial.update(status=status, reason=reason or None, speedup=None, verdict=None)
        if status not in ("incorrect",):
            trial.update(correctness=None, samples_ns=[], median_ns=0, q1_ns=0, q3_ns=0)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def text(self, name):
        with open(self.path("out." + name), encoding="utf-8", newline="") as file:
            return file.read()

    def timings(self):
        for case in self.report["cases"]:
            for timing in case["baselines"] + case["trials"]:
                yield case, timing

    def test_json_is_what_was_read_and_fits_the_schema(self):
        sweep = schema("sweep.json")
        self.assertEqual([e.message for e in sweep.iter_errors(self.plain)], [])
        self.assertEqual([e.message for e in sweep.iter_errors(self.report)], [])
        for mine, given in zip(self.report["cases"], self.data["cases"]):
            self.assertEqual(mine, given)
        self.assertEqual(self.report["environment"], self.data["environment"])

    def test_schema_refuses_what_is_planted(self):
        def planted(change):
            data = json.loads(json.dumps(self.plain))
            change(data)
            return list(schema("sweep.json").iter_errors(data))

        trial = lambda d: d["cases"][0]["trials"][0]
        self.assertTrue(planted(lambda d: d.pop("crossover")))
        self.assertTrue(planted(lambda d: trial(d).update(status="fine")))
        self.assertTrue(planted(lambda d: trial(d).update(median_ns="1")))
        self.assertTrue(planted(lambda d: trial(d).update(extra=1)))
        self.assertTrue(planted(lambda d: trial(d).update(status="incorrect")))  # with a speedup
        self.assertTrue(planted(lambda d: trial(d)["speedup"]["vs_loop"].update(ci95=[1])))

    def test_fuse_fits_its_schema(self):
        for n in ("3", "2,3"):
            path = self.path("fuse.json")
            run = workbench("fuse", "mlp", "-n", n, "--budget", "0.01", "--explain", "--json", path)
            self.assertEqual(run.returncode, 0, run.stderr)
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
            self.assertEqual([e.message for e in schema("fuse.json").iter_errors(data)], [])
            data["coverage"]["magic"] = 1
            self.assertTrue(list(schema("fuse.json").iter_errors(data)))

    def test_csv(self):
        rows = list(csv.DictReader(io.StringIO(self.text("csv"))))
        timings = list(self.timings())
        self.assertEqual(len(rows), len(timings))
        for row, (case, timing) in zip(rows, timings):
            self.assertEqual(None not in row, True)
            for name in ("target", "shape", "dtype", "device", "mode", "phase"):
                self.assertEqual(row[name], case[name])
            self.assertEqual(int(row["n"]), case["n"])
            timed = bool(timing["samples_ns"])
            for name in ("median_ns", "q1_ns", "q3_ns"):
                self.assertEqual(row[name], "" if not timed else row[name])
                if timed:
                    self.assertEqual(float(row[name]), timing[name])
            self.assertEqual([float(s) for s in row["samples_ns"].split()], timing["samples_ns"])
            self.assertEqual(int(row["calls_per_sample"]), timing["calls_per_sample"])
            self.assertEqual(row["name"], timing["name"])
            self.assertEqual(row["kind"], timing["kind"])
            self.assertEqual(row["status"], timing.get("status", ""))
            self.assertEqual(row["reason"], timing.get("reason") or "")
            self.assertEqual(row["disturbed"], "true" if case["disturbed"] else "false")
            self.assertEqual(row["verdict"], timing.get("verdict") or "")
            for name in ("vs_loop", "vs_best_baseline"):
                both = (timing.get("speedup") or {}).get(name)
                got = [row[name], row[name + "_low"], row[name + "_high"]]
                self.assertEqual([float(x) for x in got if x],
                                 [both["value"], *both["ci95"]] if both else [])
            checked = timing.get("correctness")
            for name in ("max_rel", "eager_max_rel", "tolerance"):
                self.assertEqual(row[name] and float(row[name]), checked[name] if checked else "")
        self.assertEqual(csv_formula(rows), [])

    def test_html(self):
        page = self.text("html")
        tables = Tables(page)
        rows = list(tables.dicts("timings"))
        timings = list(self.timings())
        self.assertEqual(len(rows), len(timings))
        value = lambda cell: cell[1] and float(cell[1])
        for row, (case, timing) in zip(rows, timings):
            self.assertEqual(value(row["N"]), case["n"])
            self.assertEqual(row["strategy"][0].removesuffix(" *"), timing["name"])
            self.assertEqual(row["status"][0], timing.get("status", ""))
            self.assertEqual(row["verdict"][0], timing.get("verdict") or "")
            for name, key in (("median", "median_ns"), ("q1", "q1_ns"), ("q3", "q3_ns")):
                self.assertEqual(value(row[name]) or 0, timing[key])
            for name, key in (("over loop", "vs_loop"), ("over best baseline", "vs_best_baseline")):
                both = (timing.get("speedup") or {}).get(key)
                self.assertEqual(value(row[name]), both["value"] if both else None)
            checked = timing.get("correctness")
            self.assertEqual(value(row["max error"]), checked["max_rel"] if checked else None)
        environment = {row["what"][0]: row["value"][0] for row in tables.dicts("environment")}
        self.assertEqual(environment["cpu model"], self.report["environment"]["cpu"]["model"])
        self.assertEqual(environment["host"], HOSTILE)
        # One file with its own script alone, nothing fetched, nothing of a name taken for markup.
        self.assertEqual(tables.scripts, 1)
        self.assertNotRegex(page, r"(src|href)=[\"']?(http|//)")
        self.assertIn("data-kind=\"curve ", page)
        self.assertIn(self.report["sweep"]["command"].split()[0], page)

    def test_markdown(self):
        lines = self.text("md").splitlines()
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("| ")]
        unescape = lambda cell: re.sub(r"\\(.)", r"\1", cell.strip())
        head, found = None, []
        for row in rows:
            cells = [unescape(cell) for cell in row]
            if cells[0] == "N":
                head = cells
            elif head and len(cells) == len(head):
                found.append(dict(zip(head, cells)))
        timings = list(self.timings())
        self.assertEqual(len(found), len(timings))
        unit = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
        for row, (case, timing) in zip(found, timings):
            self.assertEqual(int(row["N"]), case["n"])
            self.assertEqual(row["strategy"].removesuffix(" *"), timing["name"])
            if timing["samples_ns"]:
                number, name = row["median"].split()
                self.assertAlmostEqual(float(number) * unit[name] / timing["median_ns"], 1, delta=0.006)
            both = timing.get("speedup")
            if both:
                wanted = both["vs_best_baseline"]
                numbers = [float(x) for x in re.findall(r"[\d.]+", row["over best baseline"])[:3]]
                for got, exact in zip(numbers, [wanted["value"], *wanted["ci95"]]):
                    self.assertAlmostEqual(got, exact, delta=0.0051 + 0.01 * (exact >= 10) * exact)
            else:
                self.assertEqual(row["over best baseline"], "")

    def test_junit(self):
        root = xml.fromstring(self.text("junit"))
        cases = list(root.iter("testcase"))
        trials = [(c, t) for c in self.report["cases"] for t in c["trials"]]
        self.assertEqual(len(cases), len(trials))
        for suite in [root, *root.iter("testsuite")]:
            for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"),
                              ("skipped", "skipped")):
                self.assertEqual(int(suite.get(name)), len(list(suite.iter(tag))))
        element = {"ok": [], "incorrect": ["failure"], "crashed": ["error"], "timeout": ["error"],
                   "unsupported": ["skipped"], "cancelled": ["skipped"]}
        for case, (where, trial) in zip(cases, trials):
            self.assertEqual(case.get("classname"), where["target"])
            self.assertTrue(case.get("name").startswith(f"{trial['strategy']} n={where['n']} "))
            self.assertEqual([e.tag for e in case if e.tag != "properties"], element[trial["status"]])
            for child in case:
                if trial["reason"] and child.tag != "properties":
                    self.assertEqual(child.get("message"), trial["reason"])
            got = {p.get("name"): p.get("value") for p in case.iter("property")}
            self.assertEqual(got["status"], trial["status"])
            self.assertEqual("disturbed" in got, where["disturbed"])
            if trial["speedup"]:
                self.assertEqual(float(got["vs_loop"]), trial["speedup"]["vs_loop"]["value"])
                self.assertEqual(float(got["vs_best_baseline"]),
                                 trial["speedup"]["vs_best_baseline"]["value"])
                self.assertEqual(float(got["median_ns"]), trial["median_ns"])

    def test_svg_points_lie_where_the_numbers_say(self):
        root = xml.fromstring(self.text("svg"))
        figures = groups(root, "figure")
        self.assertEqual(len(figures), 2)
        points = 0
        for figure, cases in zip(figures, (self.report["cases"][:3], self.report["cases"][3:])):
            x = [scale(axis, 0, "x") for axis in groups(figure, "n axis")]
            y = scale(groups(figure, "speedup axis")[0], -3.5, "y")
            error = scale(groups(figure, "error axis")[0], -3.5, "y")
            for strategy in {t["strategy"] for c in cases for t in c["trials"]}:
                trials = [(c["n"], t) for c in cases for t in c["trials"] if t["strategy"] == strategy]
                curve = next((g for g in figure.iter()
                              if kind(g).removesuffix(" *") == "curve " + strategy), None)
                shown = [(n, t["speedup"]["vs_best_baseline"]["value"]) for n, t in trials if t["speedup"]]
                got = [centre(g) for g in groups(curve, "point")] if curve is not None else []
                self.assertEqual(len(got), len(shown))
                for (px, py), (n, value) in zip(got, shown):
                    self.assertAlmostEqual(px, x[0](n), delta=0.2)
                    self.assertAlmostEqual(py, y(value), delta=0.6)
                    points += 1
                checked = [(n, t["correctness"]["max_rel"]) for n, t in trials
                           if t["correctness"] and t["correctness"]["max_rel"] > 0]
                curve = next((g for g in figure.iter()
                              if kind(g).removesuffix(" *") == "error " + strategy), None)
                got = [centre(g) for g in curve if kind(g) in ("point", "incorrect")] if checked else []
                for (px, py), (n, value) in zip(got, checked):
                    self.assertAlmostEqual(px, x[1](n), delta=0.2)
                    self.assertAlmostEqual(py, error(value), delta=0.6)
        self.assertGreater(points, 6)

    def test_svg_marks_what_is_incorrect_and_lists_what_failed(self):
        root = xml.fromstring(self.text("svg"))
        first, second = groups(root, "figure")
        # In the lane below the speedups and at its error beside.
        crosses = groups(first, "incorrect")
        self.assertEqual(len(crosses), 2)
        x = [scale(axis, 0, "x") for axis in groups(first, "n axis")]
        self.assertEqual(sorted(round(centre(c)[0]) for c in crosses), sorted(round(s(2)) for s in x))
        words = " ".join(t.text or "" for t in first.iter() if t.tag.endswith("text"))
        for part in ("crashed, ", "signal 11", "timeout, ", "after 60 s", "is a cross: incorrect"):
            self.assertIn(part, words)
        self.assertEqual(groups(second, "incorrect"), [])
        self.assertIn("alert(1)", " ".join(t.text or "" for t in second.iter() if t.tag.endswith("text")))
        self.assertEqual([e.tag for e in root.iter() if e.tag.endswith("script")], [])
        for name in ("y=1", "y=N", "tolerance"):
            self.assertEqual(len(groups(root, name)), 2, name)

    def test_csv_agrees_with_the_store(self):
        run = workbench("sweep", "ci", "--targets", "linear", "-n", "2,3", "--budget", "0.01", "--quiet",
                        "--name", "stored")
        self.assertEqual(run.returncode, 0, run.stderr)
        run = workbench("report", "stored", "--csv", "-")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        rows = list(csv.DictReader(io.StringIO(run.stdout)))
        with sqlite3.connect(DB) as store:
            stored = store.execute(
                """SELECT c.target, c.n, t.name, t.median_ns, r.vs_best, k.max_rel,
                          length(s.ns) / 8 FROM timing t
                   LEFT JOIN trial r ON r.id = t.trial
                   JOIN "case" c ON c.id = coalesce(t."case", r."case")
                   LEFT JOIN correctness k ON k.trial = r.id JOIN samples s ON s.timing = t.id
                   WHERE c.sweep = (SELECT id FROM sweep WHERE name = 'stored')""").fetchall()
        number = lambda text: float(text) if text else None
        got = [(r["target"], int(r["n"]), r["name"], number(r["median_ns"]), number(r["vs_best_baseline"]),
                number(r["max_rel"]), len(r["samples_ns"].split())) for r in rows]
        order = lambda row: tuple(str(x) for x in row)
        self.assertEqual(sorted(got, key=order), sorted(stored, key=order))
        self.assertGreater(len(got), 10)
        # No output replaces the store that it is read from.
        for command in (["report", "last", "--csv", DB], ["compare", "last", "last", "--json", DB],
                        ["sweep", "ci", "--targets", "linear", "-n", "2", "--json", DB]):
            refused = workbench(*command)
            self.assertEqual(refused.returncode, 2, command)
            self.assertRegex(refused.stderr, r"file: got .*, which is the results store, expected another one")
        refused = workbench("report", "last", "--by", "lr")
        self.assertEqual((refused.returncode, "[--by] report: got a sweep" in refused.stderr), (2, True), refused.stderr)
        # A reference by its name.
        self.assertEqual(workbench("reference", "set", "good", "stored").returncode, 0)
        with sqlite3.connect(DB) as store:
            store.execute("""UPDATE "case" SET more = json_set(more, '$.disturbed', json('false'))""")
        run = workbench("report", "last", "--against", "good", "--fail-on-regression", "1")
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_several_at_once_and_stdout(self):
        run = workbench("report", self.sweep)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn("over best baseline", run.stdout)
        run = workbench("report", self.sweep, "--json", "-", "--targets", "linear")
        self.assertEqual({c["target"] for c in json.loads(run.stdout)["cases"]}, {"linear"})
        run = workbench("report", self.sweep, "--svg", "-", "--published", "--over", "loop")
        self.assertIn("speedup over the loop", run.stdout)
        self.assertEqual(len(groups(xml.fromstring(run.stdout), "published")), 2)

    def refused(self, code, pattern, *arguments):
        run = workbench(*arguments)
        self.assertEqual((run.returncode, run.stdout), (code, ""), run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertRegex(run.stderr, pattern)

    def test_hostile_reports_are_one_line(self):
        def spoilt(change):
            data = json.loads(json.dumps(self.plain))
            change(data)
            with open(self.path("bad.json"), "w", encoding="utf-8") as file:
                file.write(data if isinstance(data, str) else json.dumps(data))
            return self.path("bad.json")

        first = lambda d: d["cases"][0]
        self.refused(2, "n: got nothing", "report", spoilt(lambda d: first(d).pop("n")))
        self.refused(2, "samples_ns", "report",
                     spoilt(lambda d: first(d)["trials"][0].update(samples_ns=["x"])))
        self.refused(2, "JSON: got", "report",
                     spoilt(lambda d: first(d)["trials"][0].update(median_ns=math.nan)))
        self.refused(2, "cases", "report", spoilt(lambda d: d.update(cases=3)))
        self.refused(2, "status", "report",
                     spoilt(lambda d: first(d)["trials"][0].update(status="great")))
        self.refused(2, "no such file", "report", self.path("none.json"))
        self.refused(1, "writing: got No such file", "report", self.sweep, "--svg", "/nowhere/x.svg")
        self.refused(2, "target: got frob, expected one of", "report", self.sweep, "--targets", "frob")
        self.refused(2, "which --html writes too, expected another one", "report", self.sweep, "--html", self.path("one.out"),
                     "--svg", os.path.join(self.path("."), "one.out"))
        self.assertFalse(os.path.exists(self.path("one.out")))

        def huge(data):
            for i, case in enumerate(data["cases"]):
                case["n"] = (2**62, 1, -3, 0, 10**15, 7)[i]
                for trial in case["trials"]:
                    trial["speedup"]["vs_best_baseline"]["value"] = (1e300, 1e-300, 1, 0, -1, None)[i]
                    trial["correctness"]["max_rel"] = None

        path = spoilt(huge)
        for name in ("svg", "html", "csv", "md", "junit", "json"):
            run = workbench("report", path, "--" + name, "-")
            self.assertEqual((run.returncode, run.stderr), (0, ""), name)
            if name in ("svg", "junit"):
                xml.fromstring(run.stdout)


def csv_formula(rows):
    """Cells that a spreadsheet would compute."""
    return [cell for row in rows for cell in row.values() if cell and cell[0] in "=+@"]


class Compare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.before = os.path.join(cls.folder.name, "before.json")
        cls.after = os.path.join(cls.folder.name, "after.json")
        run = workbench("sweep", "ci", "--targets", "linear,embedding", "-n", "2,3,5", "--budget",
                        "0.01", "--quiet", "--no-store", "--json", cls.before)
        assert run.returncode == 0, run.stderr
        # Times as a quiet machine would take them: what is compared here are planted changes.
        with open(cls.before, encoding="utf-8") as file:
            data = json.load(file)
        noise = random.Random(7)
        for case in data["cases"]:
            case["disturbed"] = False
            for timing in case["baselines"] + case["trials"]:
                median = timing["median_ns"]
                timing["samples_ns"] = [median * noise.gauss(1, 0.01) for _ in range(21)]
        with open(cls.before, "w", encoding="utf-8") as file:
            json.dump(data, file)

    def write(self, change):
        with open(self.before, encoding="utf-8") as file:
            data = json.load(file)
        change(data)
        with open(self.after, "w", encoding="utf-8") as file:
            json.dump(data, file)

    @staticmethod
    def slow(data):
        for case in data["cases"]:
            for trial in case["trials"]:
                if trial["strategy"] == "einsum":
                    trial["samples_ns"] = [8 * s for s in trial["samples_ns"]]
                    trial["median_ns"] *= 8

    def test_a_slower_strategy_is_named(self):
        self.write(self.slow)
        run = workbench("report", self.after, "--against", self.before, "--fail-on-regression", "25")
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertRegex(run.stderr, r"regression: got \d trials slower .*linear/einsum n=\d.* \+700 %")
        self.assertEqual(len(run.stderr.splitlines()), 1)
        run = workbench("report", self.after, "--against", self.before, "--fail-on-regression", "1500")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        out = os.path.join(self.folder.name, "compare.json")
        run = workbench("compare", self.before, self.after, "--json", out)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn("SLOWER", run.stdout)
        with open(out, encoding="utf-8") as file:
            data = json.load(file)
        for trial in data["trials"]:
            if trial["strategy"] == "einsum":
                self.assertAlmostEqual(trial["change"]["value"], 0.125, delta=1e-9)
                self.assertLess(trial["change"]["interval"][0], 0.125)
                self.assertGreater(trial["change"]["interval"][1], 0.125)
        values = [t["change"]["value"] for t in data["trials"]]
        self.assertEqual(values, sorted(values))

    def test_a_sweep_compares_itself(self):
        def change(data):  # a reference a million times as fast: more than any load on the machine
            for case in data["cases"]:
                for trial in case["trials"]:
                    trial["samples_ns"] = [s / 1e6 for s in trial["samples_ns"]]
                    trial["median_ns"] /= 1e6
        self.write(change)
        out = os.path.join(self.folder.name, "again.json")
        common = ["sweep", "ci", "--targets", "linear", "-n", "2,3,5", "--budget", "0.01", "--no-store",
                  "--quiet", "--json", out, "--fail-on-regression"]

        def disturbed():  # by whatever else this machine does now
            with open(out, encoding="utf-8") as file:
                return [case["disturbed"] for case in json.load(file)["cases"]]

        run = workbench(*common, "1e12", "--against", self.after)
        if any(disturbed()):
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertRegex(run.stderr, r"regression: got \d+ trials that other programs disturbed here or in ci")
        else:
            self.assertEqual((run.returncode, run.stderr), (0, ""))
        run = workbench(*common, "40", "--against", self.after)
        self.assertEqual(run.returncode, 1 if all(disturbed()) else 3, run.stderr)
        if not all(disturbed()):
            self.assertRegex(run.stderr, r"regression: got \d+ trials slower than in ci \(linear/")
        run = workbench(*common, "40")
        self.assertEqual(run.returncode, 2)

    def test_what_was_disturbed_passes_nothing(self):
        def change(data):
            data["cases"][0].update(disturbed=True, other_load=0.48)
        self.write(change)
        run = workbench("report", self.after, "--against", self.before)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertRegex(run.stdout, r"1 of 6 cases is disturbed, UNCLEAR: .* 48 % .*--resume --again disturbed")
        run = workbench("report", self.after, "--against", self.before, "--fail-on-regression", "10")
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, r"^\[ci\] regression: got \d trials that other programs disturbed .*\n$")

        def slower(data):  # a regression elsewhere says more
            change(data)
            self.slow(data)
        self.write(slower)
        run = workbench("report", self.after, "--against", self.before, "--fail-on-regression", "25")
        self.assertEqual(run.returncode, 3, run.stderr)

    def test_other_hardware_is_unclear(self):
        def change(data):
            self.slow(data)
            data["environment"]["cpu"]["model"] = "another"
        self.write(change)
        run = workbench("report", self.after, "--against", self.before, "--fail-on-regression", "10")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn("other hardware", run.stdout)

    def test_what_is_wrong_with_the_options(self):
        for arguments, pattern in (
                (["--fail-on-regression", "10"], "reference: got none"),
                (["--against", self.before, "--fail-on-regression", "-3"], "expected a positive number"),
                (["--against", os.path.join(self.folder.name, "none.json")], "no such file")):
            run = workbench("report", self.before, *arguments)
            self.assertEqual((run.returncode, run.stdout, len(run.stderr.splitlines())), (2, "", 1))
            self.assertRegex(run.stderr, pattern)


if __name__ == "__main__":
    unittest.main()
