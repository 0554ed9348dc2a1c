"""`compare` of two runs: what differs is named first, and only runs of one configuration are called better or worse."""
import copy
import json
import os
import sys
import unittest

import numpy
import torch
from safetensors.numpy import load_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import digits
from train_command import Train


class Compared(Train):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        self.x = random.normal(0, 1, (80, 4)).astype("float32")
        self.y = (self.x @ random.normal(0, 1, (4, 3))).argmax(1)
        self.data("data.npz", self.x)
        digits.export(torch.nn.Linear(4, 3), self.path("net.pt2"), torch.randn(3, 4))
        self.run_of("first", "--epochs", "4", net="net.pt2")

    def data(self, name, x):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        numpy.savez(self.path(name), input=x, y=self.y)

    def run_of(self, name, *arguments, net="net.pt2", data="data.npz", lr="0.05", held="0.25"):
        self.workbench("train", self.path(net), "--data", self.path(data), "--no-store", "--seeds", "4", "--quiet", "--lr", lr,
                       "--check", "0", "--validation", held, "--save", self.path(name), *arguments)

    def compared(self, name):
        run = self.workbench("compare", self.path("first"), self.path(name), "--json", self.path("c.json"))
        with open(self.path("c.json"), encoding="utf-8") as file:
            document = json.load(file)
        return document, run.stdout

    def values(self, name):
        with open(self.path(name + "/report.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.fits_the_schema(report)
        return numpy.array([m["best"]["loss"] for m in report["models"]])

    def test_one_configuration(self):
        os.mkdir(self.path("other"))
        os.rename(self.path("net.pt2"), self.path("other/copy.pt2"))  # the same network under another name
        self.run_of("again", "--epochs", "4", "--save-every", "3", "--threads", "1", net="other/copy.pt2")
        document, said = self.compared("again")
        self.assertEqual((document["verdict"], document["differences"]), ("SAME", []))
        self.assertTrue(said.startswith("SAME loss over 4 pairs"), said)
        self.run_of("short", "--epochs", "1", "--metric", "accuracy", net="other/copy.pt2")
        document, said = self.compared("short")
        self.assertEqual(document["verdict"], "WORSE")
        self.assertEqual([(d["what"], d["other_configuration"]) for d in document["differences"]], [("metrics", False), ("steps", False)])
        self.assertRegex(said, r"(?s)^the runs differ:\n  metrics  loss -> accuracy, loss\n  steps    8 -> 2\n.*\nWORSE loss over 4 pairs")

    def test_other_configurations(self):
        os.mkdir(self.path("other"))
        digits.export(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()), self.path("tanh.pt2"), torch.randn(3, 4))

        class Halved(torch.nn.Linear):
            def forward(self, input):
                return super().forward(input) / 2

        digits.export(Halved(4, 3), self.path("other/net.pt2"), torch.randn(3, 4))  # the same name and tensors
        self.data("other/data.npz", self.x + 1)
        for name, what, before, after, run in (
                ("lr", "lr", "0.05", "0.5", {"lr": "0.5"}),
                ("tanh", "network", "net.pt2", "tanh.pt2", {"net": "tanh.pt2"}),
                ("halved", "network", "net.pt2", "net.pt2 with other operators or sizes", {"net": "other/net.pt2"}),
                ("data", "data", "60 rows", "60 rows of other columns or values", {"data": "other/data.npz"}),
                ("held", "rows to validate", "20 rows", "40 rows", {"held": "0.5"}),
                ("loss", "loss", "cross_entropy", "cross_entropy:weight=balanced", {"more": ["--loss", "cross_entropy:weight=balanced"]}),
                ("batch", "batch", "32", "8", {"more": ["--batch", "8"]}),
                ("normal", "normalize", "none", "input=standard", {"more": ["--normalize", "input=standard"]})):
            with self.subTest(name):
                more = run.pop("more", [])
                self.run_of(name, "--epochs", "4", *more, **run)
                document, said = self.compared(name)
                deciding = [d for d in document["differences"] if d["other_configuration"]]
                named = {d["what"]: (d["before"], d["after"]) for d in deciding}
                self.assertEqual(named.get(what), (before, after), named)
                self.assertLessEqual(set(named), {what, "data"} if name == "held" else {what})
                self.assertEqual(document["verdict"], "UNCLEAR")
                first, *rest = said.splitlines()
                self.assertEqual(first, "the runs are of other configurations, so that nothing is called BETTER or WORSE:")
                self.assertTrue(any(line.startswith(f"  {what}") and line.endswith(f"{before} -> {after}") for line in rest), said)
                self.assertFalse([line for line in rest if line.startswith(("BETTER", "WORSE", "SAME"))], said)
                self.assertIn(f"of the model of the same {'seeds and fold' if name == 'lr' else 'hyperparameters, seeds and fold'} in the other",
                              said)
                change = self.values(name) - self.values("first")
                self.assertAlmostEqual(document["change"]["mean"], change.mean(), places=12)
                self.assertIn("UNCLEAR loss over 4 pairs", said)

    def test_a_limit_holds_for_other_configurations_too(self):
        self.run_of("slow", "--epochs", "4", "--batch", "60")
        report = ["report", self.path("slow"), "--against", self.path("first"), "--fail-on-regression"]
        run = self.workbench(*report, "1", expect=3)
        self.assertIn("UNCLEAR loss over 4 pairs", run.stdout)
        self.assertIn("[--against] loss: got ", run.stderr)
        self.workbench(*report, "100000")

    def test_few_pairs(self):
        """One pair of models tells nothing of chance; the interval of few is as wide as Student's."""
        for n, verdict in ((1, "UNCLEAR"), (3, "WORSE")):
            for name, epochs in ((f"long{n}", "12"), (f"brief{n}", "1")):
                self.workbench("train", self.path("net.pt2"), "--data", self.path("data.npz"), "--no-store", "--seeds", str(n), "--quiet",
                               "--lr", "0.05", "--check", "0", "--validation", "0.25", "--save", self.path(name), "--epochs", epochs)
            long, brief = self.path(f"long{n}"), self.path(f"brief{n}")
            run = self.workbench("compare", long, brief, "--json", self.path("c.json"))
            with open(self.path("c.json"), encoding="utf-8") as file:
                document = json.load(file)
            change = self.values(f"brief{n}") - self.values(f"long{n}")
            self.assertTrue((change > 0.05).all(), change)
            self.assertEqual((document["verdict"], document["pairs"]), (verdict, n))
            self.assertIn(f"{verdict} loss over {n} pairs", run.stdout)
            self.assertAlmostEqual(document["change"]["mean"], change.mean(), places=12)
            self.workbench("report", brief, "--against", long, "--fail-on-regression", "1", expect=3)
            self.assertTrue(self.workbench("compare", long, long).stdout.startswith(f"SAME loss over {n} pairs"))

    def test_intervals_hold_the_mean_as_often_as_they_say(self):
        """Of changes drawn from a normal distribution of mean 0, few verdicts are BETTER or WORSE."""
        self.run_of("plain")
        with open(self.path("plain/report.json"), encoding="utf-8") as file:
            report = json.load(file)
        random = numpy.random.default_rng(11)
        for n in (2, 3, 5):
            called = 0
            for _ in range(40):
                for name in ("before", "after"):
                    models = []
                    for seed, value in enumerate(random.normal(2, 0.3, n)):
                        model = copy.deepcopy(report["models"][0])
                        model.update(model=seed, name=f"m{seed}", config=0)
                        model["seeds"] = {kind: seed for kind in model["seeds"]}
                        model["best"]["loss"] = float(value)
                        models.append(model)
                    with open(self.path(f"{name}.json"), "w", encoding="utf-8") as file:
                        json.dump({**report, "n": n, "models": models, "history": [], "events": [], "configs": []}, file)
                called += not self.workbench("compare", self.path("before.json"), self.path("after.json")).stdout.startswith("SAME")
            self.assertLessEqual(called, 6, n)  # of 40, where 2 are expected

    def test_pruned_models_have_no_pairs(self):
        for name in ("cut", "cut2"):
            self.run_of(name, "--epochs", "4", "--prune", "2,3")
        self.workbench("compare", self.path("cut"), self.path("cut2"), "--json", self.path("c.json"))
        with open(self.path("c.json"), encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual([document[key] for key in ("pairs", "alone", "pruned", "verdict")], [2, 0, 4, "SAME"])


class BesideSweeps(Train):
    def test_a_number_or_last_is_a_run_s_where_a_sweep_has_it_too(self):
        self.linear_network_and_data()
        db = ["--db", self.path("s.db")]
        self.workbench("sweep", "quick", "--targets", "linear", "-n", "2", "--budget", "0.001", "--name", "same", "--quiet", *db)
        run = ["train", self.path("net.pt2"), "--data", self.path("data.npz"), "--validation", "0.2", "-n", "2", "--epochs", "1", *db]
        self.workbench(*run, "--name", "same", "--save", self.path("run"))
        x = numpy.load(self.path("data.npz"))["input"].astype("float64")
        models = [load_file(self.path(f"run/best/model-{i:04d}.safetensors")) for i in range(2)]
        outputs = [x @ m["weight"].astype("float64").T + m["bias"].astype("float64") for m in models]
        expected = numpy.mean([numpy.exp(o) / numpy.exp(o).sum(1, keepdims=True) for o in outputs], 0)
        for name in ("last", "1", "same", "run:1", "run:last"):
            with self.subTest(name):
                out = self.path("p.npz")
                self.workbench("predict", name, "--data", self.path("data.npz"), "--out", out, *db)
                self.assertLess(abs(numpy.load(out)["prediction"] - expected).max(), 1e-5)
                os.remove(out)
                again = self.workbench(*run, "--no-save", "--no-store", "--against", name)
                self.assertIn("loss over 2 pairs", again.stdout)
                for pair in (("run:1", name), (name, "run:1")):
                    self.assertIn("SAME loss over 2 pairs", self.workbench("compare", *pair, *db).stdout)
        refused = self.workbench("predict", "none", "--data", self.path("data.npz"), "--out", self.path("p.npz"), *db, expect=2)
        self.assertIn("[none] run: got no such folder, number or name", refused.stderr)
        self.assertIn("expected a training run, as run:3 or last; try workbench list runs\n", refused.stderr)
        for name in ("last", "1", "same"):  # where a sweep can be meant, it still goes first
            self.assertIn("linear", self.workbench("report", name, *db).stdout)


if __name__ == "__main__":
    unittest.main()
