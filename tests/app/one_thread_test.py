"""One thread means one thread: nothing waits or works beside it. Without settings of OpenMP's runtime, which other tests
have from ctest."""
import glob
import os
import subprocess
import sys
import time
import unittest

import numpy
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "train"))
import digits
from command_line import BINARY, CommandLine

# Over wall time; a thread that waits for the other one and spins makes it nearly 2.
MOST_CPU = 1.25


def plain_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}


def computes(task):
    """Whether a thread has had a tenth of a second of a core: one that waits for a worker process has not."""
    with open(f"{task}/stat", encoding="ascii") as text:
        user, system = text.read().rpartition(")")[2].split()[11:13]
    return int(user) + int(system) >= os.sysconf("SC_CLK_TCK") / 10


def threads_of_tree(pid):
    """The threads that compute of a process and of all that it has started, by process."""
    counts, left = {}, [pid]
    while left:
        one = left.pop()
        try:
            counts[one] = sum(map(computes, glob.glob(f"/proc/{one}/task/*")))
            for children in glob.glob(f"/proc/{one}/task/*/children"):
                with open(children, encoding="ascii") as text:
                    left += [int(child) for child in text.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended meanwhile
    return counts


class OneThread(CommandLine):
    def run_alone(self, *arguments):
        """Runs the program; returns the largest number of threads that compute in a process, and CPU seconds over wall seconds."""
        begun, before, most = time.monotonic(), os.times(), 0
        with subprocess.Popen([BINARY, *arguments], env=plain_environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as run:
            while run.poll() is None:
                most = max([most, *threads_of_tree(run.pid).values()])
                time.sleep(0.005)
            self.assertEqual(run.returncode, 0, run.stdout.read()[-2000:])
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return most, cpu / (time.monotonic() - begun)

    def check(self, *arguments):
        most, busy = self.run_alone(*arguments)
        self.assertLessEqual(most, 1)
        self.assertLess(busy, MOST_CPU)

    def test_in_training(self):
        random = numpy.random.default_rng(0)
        numpy.savez(self.path("data.npz"), input=random.normal(0, 1, (512, 1, 12, 12)).astype("float32"),
                    y=random.integers(0, 3, 512))
        net = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(800, 3))
        digits.export(net, self.path("net.pt2"), torch.randn(3, 1, 12, 12))
        self.check("train", self.path("net.pt2"), "--data", self.path("data.npz"), "-n", "4", "--steps", "200",
                   "--threads", "1", "--validation", "0.2", "--no-store", "--no-save")

    def test_in_fuse(self):
        self.check("fuse", "lenet", "-n", "4", "--threads", "1", "--budget", "0.2", "--no-store")

    def test_in_sweeps(self):
        self.check("sweep", "quick", "--device", "cpu", "--targets", "linear", "-n", "2", "--threads", "1", "--budget", "0.05",
                   "--db", self.path("results.db"), "--name", "one")


if __name__ == "__main__":
    unittest.main()
