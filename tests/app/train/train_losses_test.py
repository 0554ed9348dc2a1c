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


if __name__ == "__main__":
    unittest.main()
