"""What a run takes of the machine's memory in its first step, where everything is recorded and planned."""
import os
import resource
import subprocess
import sys
import unittest

import numpy
import torch
from safetensors.torch import load_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digits
from train_command import Train

LAYERS, WIDTH = 32, 64
WORDS = 20_000


class Tokens(torch.nn.Module):
    """Scores of all words for each of 16 tokens."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(WORDS, 4), torch.nn.Linear(4, WORDS)

    def forward(self, x):
        return self.head(self.embedding(x)).transpose(1, 2)


class Memory(Train):
    def write_network(self):
        layers = [m for _ in range(LAYERS) for m in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())]
        digits.export(torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 3)), self.path("net.pt2"), torch.randn(4, WIDTH))

    def run_with(self, rows, data_bytes=resource.RLIM_INFINITY):
        """A run with batches of so many rows, under `ulimit -d`: its exit status and largest resident size."""
        random = numpy.random.default_rng(0)
        numpy.savez(self.path("data.npz"), input=random.normal(size=(rows, WIDTH)).astype("float32"), y=random.integers(0, 3, rows))
        return self.start(["train", self.path("net.pt2"), "--data", self.path("data.npz"), "--trust", "-n", "2", "--batch", str(rows),
                           "--steps", "2", "--exact", "--threads", "1", "--check", "0", "--no-store", "--quiet", "--overwrite", "--save",
                           self.path("run")], data_bytes)

    @staticmethod
    def start(arguments, data_bytes=resource.RLIM_INFINITY):
        process = subprocess.Popen([os.environ["WORKBENCH_BINARY"], *arguments],
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, data_bytes)))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_maxrss * 1024

    def last_weights(self):
        return load_file(self.path("run/last/model-0001.safetensors"))

    def peak(self, rows):
        """The largest resident size of a run, and what its ranges take."""
        status, resident = self.run_with(rows)
        self.assertEqual(status, 0)
        return resident, self.report()["memory"]["range_bytes"]

    def test_the_first_step_takes_little_more_than_a_step(self):
        """What recordings leave in the heap goes back before a step's own memory is taken."""
        self.write_network()
        before, _ = self.peak(16)
        most, step = self.peak(16384)
        self.assertGreater(step, 2 * LAYERS * 4 * 16384 * WIDTH)
        self.assertLess(most - before, 1.5 * step, (before, most, step))

    def test_a_process_that_may_take_less_computes_segments_again(self):
        """Nothing is said on the command line: what is free decides, and the bits stay."""
        self.write_network()
        self.assertEqual(self.run_with(16384)[0], 0)
        free, weights = self.report()["memory"], self.last_weights()
        self.assertEqual(free["recomputed"], 0)
        for most in range(900, 400, -50):
            self.assertEqual(self.run_with(16384, most << 20)[0], 0, most)
            short = self.report()["memory"]
            if short["recomputed"] > 0:
                break
        self.assertGreater(short["recomputed"], 0)
        self.assertLess(short["range_bytes"], 0.7 * free["range_bytes"])
        for name, tensor in self.last_weights().items():
            self.assertTrue(torch.equal(tensor, weights[name]), name)

    def test_evaluations_of_many_outputs(self):
        """Rows that are small and answers that are large: batches of evaluations are small, too."""
        digits.export(Tokens(), self.path("net.pt2"), torch.zeros(4, 16, dtype=torch.long))
        random, rows = numpy.random.default_rng(0), 400
        words = random.integers(0, WORDS, (rows, 16))
        numpy.savez(self.path("data.npz"), x=words, y=numpy.roll(words, -1, 1))
        options = ["-n", "2", "--batch", "4", "--steps", "2", "--threads", "1", "--check", "0", "--no-store", "--quiet", "--trust"]
        train = ["train", self.path("net.pt2"), "--data", self.path("data.npz"), "--loss", "cross_entropy", *options, "--overwrite",
                 "--save", self.path("run")]
        answers = 4 * 200 * 16 * WORDS  # bytes of a model's, for half of the rows
        status, alone = self.start(train)
        self.assertEqual(status, 0)
        status, beside = self.start([*train, "--validation", "0.5"])
        self.assertEqual(status, 0)
        self.assertLess(beside - alone, 0.5 * answers)


if __name__ == "__main__":
    unittest.main()
