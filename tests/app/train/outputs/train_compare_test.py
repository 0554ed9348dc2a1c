"""`compare` of two runs: what differs is named first, and only runs of one configuration are called better or worse."""
import json
import os
import sys
import unittest

import numpy
import torch

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

    def test_pruned_models_have_no_pairs(self):
        for name in ("cut", "cut2"):
            self.run_of(name, "--epochs", "4", "--prune", "2,3")
        self.workbench("compare", self.path("cut"), self.path("cut2"), "--json", self.path("c.json"))
        with open(self.path("c.json"), encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual([document[key] for key in ("pairs", "alone", "pruned", "verdict")], [2, 0, 4, "SAME"])


if __name__ == "__main__":
    unittest.main()
