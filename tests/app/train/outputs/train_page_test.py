"""The HTML report of a run: configurations as a table, and learning curves that can be read off their axes."""
import os
import re
import sys
import unittest
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from train_command import Train

SVG = "{http://www.w3.org/2000/svg}"


class Tables(HTMLParser):
    """Cells of all tables, by their data-kind."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.cell = {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self.rows = self.tables.setdefault(dict(attributes)["data-kind"], [])
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.cell = ""

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.rows[-1].append(self.cell)
            self.cell = None


class Page(Train):
    def setUp(self):
        super().setUp()
        self.linear_network_and_data()

    def page(self, *arguments):
        self.train("--validation", "0.25", "--check", "0", "--quiet", "--overwrite", *arguments)
        self.workbench("report", self.path("run"), "--html", self.path("page.html"))
        with open(self.path("page.html"), encoding="utf-8") as file:
            return file.read()

    def plots(self, page):
        """By metric its SVG element."""
        found = re.findall(r"<h3>([^<]+)</h3>\s*(<svg.*?</svg>)", page, re.S)
        return {name: ElementTree.fromstring(svg) for name, svg in found}

    def groups(self, svg, kind):
        return [g for g in svg.iter(SVG + "g") if g.get("data-kind") == kind]

    def scale(self, svg, axis, where):
        """Numbers and pixels of an axis' labels."""
        texts = list(self.groups(svg, axis)[0].iter(SVG + "text"))
        self.assertGreaterEqual(len(texts), 3)
        at = numpy.array([float(t.get(where)) for t in texts])
        gaps = numpy.abs(numpy.diff(numpy.sort(at)))
        self.assertGreaterEqual(gaps.min(), 14, [t.text for t in texts])  # labels do not touch
        return numpy.array([float(t.text) for t in texts]), at

    def reads_as(self, svg, name, logarithmic):
        """Points of all curves, read with the labels of the axes, are the history's."""
        steps, x = self.scale(svg, "x-axis", "x")
        values, y = self.scale(svg, "y-axis", "y")
        to_step = numpy.polyfit(x, steps, 1)
        to_value = numpy.polyfit(y - 4, numpy.log(values) if logarithmic else values, 1)  # a label's middle is 4 above its baseline
        history = self.report()["history"]
        curves = self.groups(svg, "curve")
        for curve in curves:
            model = int(re.match(r"model (\d+)$", curve.find(SVG + "title").text)[1])
            metric = "train_loss" if curve.find(SVG + "polyline").get("stroke-dasharray") else name
            wanted = [(row["step"], row[metric][model]) for row in history if row[metric][model] is not None]
            points = [p.split(",") for p in curve.find(SVG + "polyline").get("points").split()]
            got = numpy.array(points, dtype=float)
            self.assertEqual(len(got), len(wanted))
            read = numpy.polyval(to_value, got[:, 1])
            wanted = numpy.array(wanted)
            numpy.testing.assert_allclose(numpy.polyval(to_step, got[:, 0]), wanted[:, 0], atol=0.02 * wanted[:, 0].max())
            target = numpy.log(wanted[:, 1]) if logarithmic else wanted[:, 1]
            numpy.testing.assert_allclose(read, target, atol=0.01 * numpy.ptp(target) + 0.01)
        return curves

    def test_a_format_that_runs_have_not(self):
        """Refused before anything is written."""
        self.train("--steps", "2", "--check", "0", "--quiet", "-n", "2")
        run = self.workbench("report", self.path("run"), "--html", self.path("page.html"), "--md", self.path("page.md"), expect=2)
        self.assertIn("[--md] report: got a training run, expected a sweep; try --html", run.stderr)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("page.")], [])

    def test_configurations(self):
        page = self.page("--grid", "lr=0.001,0.05,0.2", "--seeds", "2", "--epochs", "6", "--metric", "accuracy", "--test", "0.2")
        rows = Tables(page).tables["configurations"]
        self.assertEqual(rows[0], ["lr", "n", "loss", "loss, middle half", "test loss", "accuracy", "accuracy, middle half",
                                   "test accuracy"])
        configs = self.report()["configs"]
        self.assertEqual([(float(row[0]), int(row[1])) for row in rows[1:]], [(c["hyperparameters"]["lr"], 2) for c in configs])
        for row, config in zip(rows[1:], configs):
            mean, sd, low, high = map(float, re.match(r"(\S+) ± (\S+) \[(\S+), (\S+)\]$", row[2]).groups())
            for got, wanted in ((mean, config["mean"]), (low, config["ci95"][0]), (high, config["ci95"][1])):
                self.assertAlmostEqual(got, wanted, delta=1e-3 * abs(wanted))
            self.assertAlmostEqual(sd, config["sd"], delta=0.06 * config["sd"])
            self.assertAlmostEqual(float(row[3]), config["iqm"], delta=1e-3 * config["iqm"])
            self.assertAlmostEqual(float(row[5].split()[0]), config["metrics"]["accuracy"]["validation"]["mean"], delta=1e-3)
        ensemble = Tables(page).tables["ensemble"]
        self.assertEqual([row[:2] for row in ensemble[1:]], [["test rows", "6"], ["validation rows", "6"]][::-1])
        self.assertAlmostEqual(float(ensemble[1][2]), self.report()["ensemble"]["validation"]["loss"], delta=1e-3)
        self.assertEqual(len(Tables(page).tables["models"]), 7)
        plots = self.plots(page)
        self.assertEqual(list(plots), ["loss", "accuracy"])
        for name, svg in plots.items():
            legend = self.groups(svg, "legend")
            names = [entry.find(SVG + "title").text for entry in legend]
            self.assertEqual(names, [f"lr={c['hyperparameters']['lr']:.4g} (2 models)" for c in configs])
            colours = {entry.find(SVG + "title").text: entry.find(SVG + "line").get("class") for entry in legend}
            self.assertEqual(len(set(colours.values())), 3)
            curves = self.reads_as(svg, name, logarithmic=False)
            self.assertEqual(len(curves), 12 if name == "loss" else 6)  # dashed: the training loss
            for group in self.groups(svg, "group"):
                series = group.find(SVG + "title").text.removesuffix(", training")
                self.assertEqual(group.find(SVG + "polyline").get("class"), colours[series])
        # It is the picture of --svg.
        self.workbench("report", self.path("run"), "--svg", self.path("run.svg"))
        alone = ElementTree.parse(self.path("run.svg")).getroot()
        shapes = [[e.get("points") for e in svg.iter(SVG + "polyline")] for svg in (plots["loss"], alone)]
        self.assertEqual(len(shapes[0]), len(shapes[1]))
        head = {round(float(b.split(",")[1]) - float(a.split(",")[1]), 1) for mine, theirs in zip(*shapes)
                for a, b in zip(mine.split(), theirs.split())}
        self.assertEqual(len(head), 1, head)  # below its heading

    def test_values_of_many_sizes_and_more_configurations_than_colours(self):
        page = self.page("-n", "16", "--lr", "log:1e-4..300", "--optimizer", "sgd", "--epochs", "5", "--prune", "4,3")
        svg = self.plots(page)["loss"]
        losses = [v for row in self.report()["history"] for v in row["loss"] if v is not None]
        self.assertGreater(max(losses) / min(losses), 20)
        self.assertEqual(len(self.reads_as(svg, "loss", logarithmic=True)), 32)
        names = [entry.find(SVG + "title").text for entry in self.groups(svg, "legend")]
        self.assertEqual(len(names), 12)
        self.assertEqual(names[-1], "5 other configurations, each model a faint line")
        rows = Tables(page).tables["configurations"]
        self.assertEqual(rows[0][:3], ["lr", "n", "pruned"])
        self.assertEqual(sorted(row[1:3] for row in rows[1:]), [["0", "1"]] * 12 + [["1", "0"]] * 4)
        self.assertIn("pruned models are left out of the means and of the mean answer", page)

    def test_values_that_differ_in_late_digits(self):
        """Text, page and picture have a configuration for each, under its whole values."""
        values = {"beta2": ["0.99995", "0.99999"], "weight_decay": ["0.12345", "0.12346"]}
        grid = [argument for key, of in values.items() for argument in ("--grid", f"{key}={','.join(of)}")]
        page = self.page("--optimizer", "adamw", *grid, "--seeds", "2", "--epochs", "2", "--lr", "0.05")
        names = sorted(f"beta2={a} weight_decay={b}" for a in values["beta2"] for b in values["weight_decay"])
        self.assertEqual(sorted([c["hyperparameters"]["beta2"], c["hyperparameters"]["weight_decay"]] for c in self.report()["configs"]),
                         [[float(part.split("=")[1]) for part in name.split()] for name in names])
        text = self.workbench("report", self.path("run")).stdout
        self.assertEqual(sorted(re.findall(r"^  (beta2=\S+ weight_decay=\S+) +n 2 ", text, re.M)), names)
        head, *rows = Tables(page).tables["configurations"]
        self.assertEqual(sorted(" ".join(f"{key}={row[head.index(key)]}" for key in values) for row in rows), names)
        self.workbench("report", self.path("run"), "--svg", self.path("run.svg"))
        for svg in (self.plots(page)["loss"], ElementTree.parse(self.path("run.svg")).getroot()):
            self.assertEqual(sorted(entry.find(SVG + "title").text for entry in self.groups(svg, "legend")),
                             [f"{name} (2 models)" for name in names])
            self.assertEqual(len(self.groups(svg, "group")), 8)  # the validation and the training loss of each

    def test_models_of_one_configuration(self):
        svg = self.plots(self.page("--seeds", "3", "--epochs", "1"))["loss"]
        self.assertEqual([entry.find(SVG + "title").text for entry in self.groups(svg, "legend")], ["all models (3 models)"])
        points = [g for g in self.groups(svg, "curve") if g.find(SVG + "circle") is not None]
        self.assertEqual(len(points), 6)  # one evaluation is no line

    def test_picture_has_medians_and_quartiles_of_configurations(self):
        self.train("--validation", "0.25", "--check", "0", "--quiet", "--overwrite", "--grid", "lr=0.001,0.05,0.2",
                   "--seeds", "4", "--epochs", "7")
        self.workbench("report", self.path("run"), "--svg", self.path("run.svg"))
        svg = ElementTree.parse(self.path("run.svg")).getroot()
        self.assertEqual(len(self.groups(svg, "curve")), 24)  # the validation loss and the training loss of 12 models
        self.assertEqual(len(self.groups(svg, "best")), 5)
        steps, x = self.scale(svg, "x-axis", "x")
        values, y = self.scale(svg, "y-axis", "y")
        to_step, to_value = numpy.polyfit(x, steps, 1), numpy.polyfit(y - 4, values, 1)
        report = self.report()
        seen = 0
        for group in self.groups(svg, "group"):
            lr, metric = re.match(r"lr=(\S+) \(4 models\)(, training)?$", group.find(SVG + "title").text).groups()
            metric = "train_loss" if metric else "loss"
            models = [m["model"] for m in report["models"] if f"{m['hyperparameters']['lr']:.4g}" == lr]
            of = numpy.array([[row[metric][m] for m in models] for row in report["history"]])

            def points(element):
                return numpy.array([p.split(",") for p in element.get("points").split()], dtype=float)

            median = points(group.find(SVG + "polyline"))
            numpy.testing.assert_allclose(numpy.polyval(to_step, median[:, 0]), [row["step"] for row in report["history"]],
                                          atol=0.01 * steps.max())
            band = points(group.find(SVG + "polygon"))
            rows = len(report["history"])
            for got, share in ((median, 50), (band[:rows], 75), (band[rows:][::-1], 25)):
                numpy.testing.assert_allclose(numpy.polyval(to_value, got[:, 1]), numpy.percentile(of, share, axis=1),
                                              atol=0.005 * numpy.ptp(values))
            seen += 1
        self.assertEqual(seen, 6)


if __name__ == "__main__":
    unittest.main()
