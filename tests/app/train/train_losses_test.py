"""The loss over the validation rows, of every kind, as PyTorch computes it from the checkpoints."""
import os
import sys
import unittest

import numpy
import torch
from safetensors.torch import load_file
from torch.nn import functional

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digits
from train_command import Train

SMOOTHED = [0.1, 0, 0.2]


class Losses(Train):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        self.x = random.normal(0, 1, (60, 6)).astype("float32")
        self.weight = random.uniform(0, 1, 60)
        self.classes = random.integers(0, 3, 60)
        self.places = random.integers(0, 3, (60, 4))
        self.numbers = random.normal(0, 1, (60, 3)).astype("float32")
        self.labels = (self.numbers > 0.3).astype("float32")
        self.layers = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
        # Scores of classes at several places: [B, C, 4].
        self.several = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Unflatten(1, (3, 4)))

    def is_pytorchs(self, loss, y, exact, *options, net=None):
        """`exact` of a model's number, its output, the target and the validation rows, in float64."""
        net = net or self.layers
        digits.export(net, self.path("net.pt2"), torch.randn(4, 6))
        weight = {"w": self.weight.astype("float32")} if "--sample-weight" in options else {}
        numpy.savez(self.path("data.npz"), input=self.x, y=y, **weight)
        self.train("-n", "3", "--epochs", "1", "--batch", "16", "--lr", "1e-2", "--loss", loss, "--validation", "0.25",
                   "--init", "fresh", "--overwrite", *options)
        rows = numpy.load(self.path("run/split.npz"))["validation"]
        target = torch.tensor(y[rows])
        for i, model in enumerate(self.report()["models"]):
            net.load_state_dict(load_file(self.path(f"run/last/model-{i:04d}.safetensors")))
            with torch.no_grad():
                output = net.double()(torch.tensor(self.x[rows]).double())
            net.float()
            wanted = exact(i, output, target if loss.startswith(("cross", "nll")) else target.double(), rows).item()
            self.assertAlmostEqual(model["last"]["loss"], wanted, delta=1e-5 * max(1, abs(wanted)), msg=f"{loss} {i}")

    def test_of_classes(self):
        cross = functional.cross_entropy
        self.is_pytorchs("cross_entropy:ignore_index=1", self.classes, lambda i, x, y, rows: cross(x, y, ignore_index=1))
        self.is_pytorchs("cross_entropy", self.places, lambda i, x, y, rows: cross(x, y), net=self.several)
        self.is_pytorchs("nll", self.classes, lambda i, x, y, rows: functional.nll_loss(x, y))
        self.is_pytorchs("cross_entropy", self.classes, lambda i, x, y, rows: cross(x, y, label_smoothing=SMOOTHED[i]),
                         "--set", "label_smoothing=" + ",".join(map(str, SMOOTHED)))

        def balanced(i, x, y, rows):
            train = self.classes[numpy.load(self.path("run/split.npz"))["train"]]
            return cross(x, y, weight=torch.tensor(len(train) / 3 / numpy.bincount(train)))
        self.is_pytorchs("cross_entropy:weight=balanced", self.classes, balanced)

        def weighted(i, x, y, rows):
            weight = torch.tensor(self.weight[rows])
            return (cross(x, y, reduction="none") * weight).sum() / weight.sum()
        self.is_pytorchs("cross_entropy", self.classes, weighted, "--sample-weight", "w")

    def test_of_numbers(self):
        self.is_pytorchs("mse", self.numbers, lambda i, x, y, rows: functional.mse_loss(x, y))
        self.is_pytorchs("l1", self.numbers, lambda i, x, y, rows: functional.l1_loss(x, y))
        self.is_pytorchs("huber:delta=0.5", self.numbers, lambda i, x, y, rows: functional.huber_loss(x, y, delta=0.5))
        self.is_pytorchs("bce_with_logits:pos_weight=2", self.labels, lambda i, x, y, rows:
                         functional.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor(2.0)))
        self.is_pytorchs("bce_with_logits:pos_weight=2,1,3", self.labels, lambda i, x, y, rows:
                         functional.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor([2.0, 1, 3])))
        self.refused("[--loss] pos_weight: got 2 numbers, expected one, or one for each of 3 labels; try one", "-n", "2",
                     "--loss", "bce_with_logits:pos_weight=1,2", "--overwrite")


class NothingCounts(Train):
    """Batches of 8 rows in their order; in the second one, and in the second model's third, nothing counts."""

    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        self.x, self.net = random.normal(0, 1, (40, 6)).astype("float32"), torch.nn.Linear(6, 3)
        digits.export(self.net, self.path("net.pt2"), torch.randn(4, 6))
        self.y, self.w = random.integers(0, 2, (2, 40)), random.uniform(0.5, 1, (2, 40)).astype("float32")
        self.start = {name: tensor.clone() for name, tensor in self.net.state_dict().items()}

    def skips(self, options, columns, weights):
        """As PyTorch trains without these batches. `weights` of all numbers, [2, 40]."""
        numpy.savez(self.path("data.npz"), input=self.x, **columns)
        run = self.train("-n", "2", "--init", "file", "--order", "sequential", "--batch", "8", "--epochs", "2", "--lr", "0.1",
                         "--optimizer", "sgd", "--momentum", "0.9", "--overwrite", *options)
        for i in range(2):
            self.net.load_state_dict(self.start)
            net, losses = self.net.double(), []
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
            for begin in [*range(0, 40, 8)] * 2:
                at = slice(begin, begin + 8)
                weight = torch.tensor(weights[i][at]).double()
                if weight.sum() == 0:
                    continue
                each = functional.cross_entropy(net(torch.tensor(self.x[at]).double()), torch.tensor(self.y[i][at]), reduction="none")
                loss = (each * weight).sum() / weight.sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            model, each = self.report()["models"][i], 4 - i
            self.assertEqual((model["status"], model["at_step"], len(losses)), ("trained", 10, 2 * each))
            self.assertAlmostEqual(model["last"]["train_loss"], sum(losses[each:]) / each, delta=1e-5)
            for name, tensor in load_file(self.path(f"run/last/model-{i:04d}.safetensors")).items():
                self.assertLess((net.state_dict()[name] - tensor).abs().max(), 1e-5, name)
            self.net.float()
        what = "counts (ignored, or of weight 0)"
        self.assertIn(f"model 1 skips step 2: nothing in its batch {what}", run.stdout)
        self.assertEqual(run.stdout.count("skips"), 2)
        self.assertIn(f"6 steps of 2 models skipped: nothing in their batches {what}", self.report()["notes"])

    def test_and_is_skipped(self):
        there = numpy.ones((2, 40), "float32")
        there[:, 8:16] = there[1, 16:24] = 0
        self.skips(["--own", "y", "--loss", "cross_entropy:ignore_index=2"], {"y": numpy.where(there, self.y, 2)}, there)
        self.skips(["--own", "y,w", "--sample-weight", "w"], {"y": self.y, "w": self.w * there}, self.w * there)
        self.y[there == 0] = 2
        self.skips(["--own", "y", "--loss", "cross_entropy:weight=1,2,0"], {"y": self.y}, numpy.array([1.0, 2, 0])[self.y])

    def test_anywhere(self):
        numpy.savez(self.path("data.npz"), input=self.x, y=self.y[0] * 0 + 1)
        said = self.train("-n", "2", "--init", "file", "--loss", "cross_entropy:ignore_index=1", "--epochs", "1", expect=4).stderr
        self.assertEqual(said, "[train] batches: got none in which anything counts, expected rows that are neither ignored nor of "
                               "weight 0; try other targets or weights\n")

    def test_and_others_diverge(self):
        self.y[:, 8:16] = 2
        numpy.savez(self.path("data.npz"), input=self.x, y=self.y[0])
        self.train("--init", "file", "--order", "sequential", "--batch", "8", "--loss", "cross_entropy:ignore_index=2", "--epochs",
                   "1", "--lr", "0.1,1e38", "--optimizer", "sgd")
        self.assertEqual([m["status"] for m in self.report()["models"]], ["trained", "diverged"])


if __name__ == "__main__":
    unittest.main()
