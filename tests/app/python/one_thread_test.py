"""One thread means one thread in Python too, where PyTorch is told so. Without settings of OpenMP's runtime."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package
from one_thread_test import MOST_CPU, plain_environment

# What it prints: its threads, and CPU seconds over wall seconds of compiling and a second of calls.
CALLS = """
import os, time
import torch
from torch import nn
import nwide as nw

torch.set_num_threads(1)

def net():
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 64, 10))

x = torch.randn(4, 16, 3, 16, 16)
cpu, wall = time.process_time(), time.perf_counter()
models = [net().eval() for _ in range(4)]
frozen, free = nw.compile(models, x[0]).freeze(), nw.compile(models, x[0])
with torch.no_grad():
    while time.perf_counter() - wall < 1:
        frozen(x), free(x)
print(len(os.listdir("/proc/self/task")), (time.process_time() - cpu) / (time.perf_counter() - wall))
"""


class OneThread(unittest.TestCase):
    def test_where_pytorch_says_so(self):
        # The threads of NumPy's products, which PyTorch imports, are not ours.
        run = subprocess.run([package.built(), "-c", CALLS], capture_output=True, text=True, timeout=300, check=False,
                             env={**plain_environment(), "OPENBLAS_NUM_THREADS": "1"})
        self.assertEqual(run.returncode, 0, run.stderr)
        threads, busy = run.stdout.split()
        self.assertEqual(int(threads), 1)
        self.assertLess(float(busy), MOST_CPU)


if __name__ == "__main__":
    unittest.main()
