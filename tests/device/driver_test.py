"""A command that computes on the CPU alone never looks for a GPU's driver, which answers no call from inside a sandbox."""

import ctypes
import os
import subprocess
import sys
import unittest

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
from command_line import BINARY, CommandLine

OPENED = 0x20  # IN_OPEN of inotify


class Driver(CommandLine):
    def setUp(self):
        super().setUp()
        if not os.path.exists(os.path.join(os.path.dirname(os.path.realpath(BINARY)), "workbench_cuda.so")):
            self.skipTest("built without CUDA's headers")
        os.mkdir(self.path("driver"))
        with open(self.path("driver/libcuda.so.1"), "w", encoding="utf-8"):
            pass  # the first that is found, which is no library
        libc = ctypes.CDLL(None, use_errno=True)
        self.events = libc.inotify_init1(os.O_NONBLOCK)
        self.addCleanup(os.close, self.events)
        watch = libc.inotify_add_watch(self.events, self.path("driver/libcuda.so.1").encode(), OPENED)
        self.assertGreaterEqual(watch, 0, os.strerror(ctypes.get_errno()))
        torch.jit.trace(torch.nn.Linear(4, 3), torch.randn(2, 4)).save(self.path("net.ts"))
        with open(self.path("rows.csv"), "w", encoding="utf-8") as rows:
            rows.write("a,b,c,d,y\n" + "".join(f"{i},{i % 3},{i % 5},1,{i % 3}\n" for i in range(60)))

    def looked_for(self, *arguments, expect=0):
        """Whether the command, or a process that it starts, opens the driver's library."""
        run = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=400,
                             env={**os.environ, "LD_LIBRARY_PATH": self.path("driver")})
        self.assertEqual(run.returncode, expect, run.stdout[-2000:] + run.stderr[-2000:])
        try:
            return len(os.read(self.events, 1 << 16)) > 0
        except BlockingIOError:
            return False

    def test_only_where_a_gpu_may_be_used(self):
        quiet = ["--no-store", "--quiet"]
        train = ["train", self.path("net.ts"), "--data", self.path("rows.csv"), "--target", "y", "--column", "input=a,b,c,d",
                 "-n", "2", "--steps", "3", "--save", self.path("run"), *quiet]
        sweep = ["sweep", "ci", "--targets", "linear", "-n", "2", "--axis", "linear.D=64", "--mode", "default", "--strategy",
                 "linear=packed", "--budget", "0.01", *quiet]
        one = [self.path("net.ts"), "--input", "input=2x4"]
        fuse = ["fuse", *one, "-n", "2", "--budget", "0.01", *quiet]
        for command in (train, ["train", "--resume", self.path("run"), "--steps", "4", *quiet], fuse, ["trace", *one], sweep,
                        [*sweep, "--device", "cpu"], ["list", "primitives"]):
            self.assertFalse(self.looked_for(*command), command)
        for command in (["info"], ["sweep", "quick", "--targets", "linear", "--dry-run"]):
            self.assertTrue(self.looked_for(*command), command)
        for command in (fuse, sweep, [*train, "--overwrite"]):
            self.assertTrue(self.looked_for(*command, "--device", "cuda", expect=6), command)


if __name__ == "__main__":
    unittest.main()
