"""`workbench train --device`: the whole command on the simulated device of the C++ tests, against the CPU's run.

The tests' executable is the command line there; nothing of it is known to run on a GPU.
"""
import json
import os
import subprocess
import unittest

import numpy
import torch
from safetensors.torch import load_file
from torch import nn

import digits
from train_command import Train

SIMULATED = os.path.join(os.path.dirname(os.environ["WORKBENCH_BINARY"]), "workbench_tests_simulated")


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.n = nn.Conv2d(2, 5, 3, padding=1, bias=False), nn.BatchNorm2d(5)
        self.d, self.f = nn.Dropout(0.3), nn.Linear(5, 3)

    def forward(self, x):
        return self.f(self.d(torch.relu(self.n(self.c(x))).mean((2, 3))))


class TrainOnADevice(Train):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        x = random.normal(0, 1, (90, 2, 7, 5)).astype("float32")
        numpy.savez(self.path("data.npz"), x=x, y=(x.mean((2, 3)) @ random.normal(0, 1, (2, 3))).argmax(1))
        digits.export(Cnn(), self.path("net.pt2"), torch.randn(4, 2, 7, 5))

    def run_on(self, device, folder, *arguments):
        """A run whose last batch of an epoch is short; its report and the models' last weights."""
        binary = SIMULATED if device == "simulated" else os.environ["WORKBENCH_BINARY"]
        run = subprocess.run([binary, *arguments, "--no-store", "--quiet", "--threads", "1"], capture_output=True, text=True,
                             timeout=400, env={**os.environ, "WORKBENCH_PLANT_USE": self.path("use")})
        self.assertEqual(run.returncode, 0, run.stdout[-2000:] + run.stderr[-2000:])
        with open(self.path(f"{folder}/report.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.fits_the_schema(report)
        self.assertEqual(report["device"], device)
        return report, [load_file(self.path(f"{folder}/last/model-{m:04d}.safetensors")) for m in range(3)]

    def new(self, device, folder, *more):
        return self.run_on(device, folder, "train", self.path("net.pt2"), "--data", self.path("data.npz"), "--save",
                           self.path(folder), "--device", device, "-n", "3", "--lr", "1e-3,3e-3,1e-2", "--set", "clip=0.5",
                           "--set", "ema=0.5", "--set", "label_smoothing=0.1", "--validation", "0.2", "--batch", "32",
                           "--augment", "flip", "--normalize", "x=standard", "--metric", "accuracy", *more)

    def test_as_on_the_cpu(self):
        there, device = self.new("simulated", "there", "--epochs", "4", "--schedule", "cosine")
        here, cpu = self.new("cpu", "here", "--epochs", "4", "--schedule", "cosine")
        for a, b in zip(there["history"], here["history"], strict=True):
            numpy.testing.assert_allclose(a["train_loss"], b["train_loss"], rtol=1e-4)
        for a, b in zip(device, cpu, strict=True):
            for name, value in b.items():
                numpy.testing.assert_allclose(a[name], value, rtol=2e-3, atol=2e-4, err_msg=name)
        self.assertGreater(max(numpy.abs(device[0]["f.weight"] - device[2]["f.weight"]).flatten()), 1e-2)

    def test_goes_on_with_the_same_bits(self):
        whole = self.new("simulated", "whole", "--epochs", "4")[1]
        self.new("simulated", "parts", "--epochs", "2")
        parts = self.run_on("simulated", "parts", "train", "--resume", self.path("parts"), "--epochs", "4")[1]
        for a, b in zip(whole, parts, strict=True):
            for name, value in a.items():
                self.assertTrue(torch.equal(value, b[name]), name)

    def test_what_it_cannot(self):
        self.refused("[--device] device: got tpu, expected cpu, cuda or cuda:0; try --device cpu", "-n", "2", "--device", "tpu")
        self.refused("[--bench] device: got cuda, expected cpu, where what it compares runs; try --device cpu", "-n", "2",
                     "--device", "cuda", "--bench")
        if not torch.cuda.is_available():
            run = self.train("-n", "2", "--device", "cuda:0", expect=6)
            self.assertRegex(run.stderr, r"^\[device\] cuda:0: got .*; try --device cpu\n$")
            self.assertFalse(os.path.exists(self.path("run")))


if __name__ == "__main__":
    unittest.main()
