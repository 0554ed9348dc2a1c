"""What a run takes of the machine's memory in its first step, where everything is recorded and planned."""
import os
import subprocess
import sys
import unittest

import numpy
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digits
from train_command import Train

LAYERS, WIDTH = 32, 64


class Memory(Train):
    def peak(self, rows):
        """The largest resident size of a run with batches of so many rows, and what its ranges take."""
        random = numpy.random.default_rng(0)
        numpy.savez(self.path("data.npz"), input=random.normal(size=(rows, WIDTH)).astype("float32"), y=random.integers(0, 3, rows))
        process = subprocess.Popen([os.environ["WORKBENCH_BINARY"], "train", self.path("net.pt2"), "--data", self.path("data.npz"),
                                    "--trust", "-n", "2", "--batch", str(rows), "--steps", "2", "--exact", "--threads", "1",
                                    "--check", "0", "--no-store", "--quiet", "--overwrite", "--save", self.path("run")])
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        return usage.ru_maxrss * 1024, self.report()["memory"]["range_bytes"]

    def test_the_first_step_takes_little_more_than_a_step(self):
        """What recordings leave in the heap goes back before a step's own memory is taken."""
        layers = [m for _ in range(LAYERS) for m in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())]
        digits.export(torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 3)), self.path("net.pt2"), torch.randn(4, WIDTH))
        before, _ = self.peak(16)
        most, step = self.peak(16384)
        self.assertGreater(step, 2 * LAYERS * 4 * 16384 * WIDTH)
        self.assertLess(most - before, 3 * step, (before, most, step))


if __name__ == "__main__":
    unittest.main()
