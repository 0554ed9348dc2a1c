"""One thread means one thread in Python too, where PyTorch or the options say so. Without settings of OpenMP's runtime."""

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

before = torch.get_num_threads()

options = nw.Options(threads=1)
if OF_PYTORCH:
    torch.set_num_threads(1)
    options = nw.Options()

def net():
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 64, 10))

x = torch.randn(4, 16, 3, 16, 16)
cpu, wall = time.process_time(), time.perf_counter()
models = [net().eval() for _ in range(4)]
frozen, free = (nw.compile(models, x[0], options=options) for _ in range(2))
frozen.freeze()
assert torch.get_num_threads() == (1 if OF_PYTORCH else before)
with torch.no_grad():
    while time.perf_counter() - wall < 1:
        frozen(x), free(x)
print(len(os.listdir("/proc/self/task")), (time.process_time() - cpu) / (time.perf_counter() - wall))
"""


class OneThread(unittest.TestCase):
    def alone(self, of_pytorch):
        # The threads of NumPy's products, which PyTorch imports, are not ours.
        run = subprocess.run([package.built(), "-c", f"OF_PYTORCH = {of_pytorch}\n{CALLS}"], capture_output=True, text=True, timeout=300, check=False,
                             env={**plain_environment(), "OPENBLAS_NUM_THREADS": "1"})
        self.assertEqual(run.returncode, 0, run.stderr)
        threads, busy = run.stdout.split()
        self.assertEqual(int(threads), 1)
        self.assertLess(float(busy), MOST_CPU)

    def test_where_pytorch_says_so(self):
        self.alone(True)

    def test_where_the_options_of_one_module_say_so(self):
        self.alone(False)


if __name__ == "__main__":
    unittest.main()
