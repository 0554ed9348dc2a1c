"""One process in a run's folder at a time."""
import ctypes
import glob
import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

import numpy
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import digits
from train_command import Train

BINARY = os.environ["WORKBENCH_BINARY"]

ENOLCK = 37


def without_flock():
    """Before a program starts: flock says that the file system has no locks, as some network file systems do."""
    number = {"x86_64": 73, "aarch64": 32}[platform.machine()]
    load, jump_equal, answer = 0x20, 0x15, 0x06
    steps = [(load, 0, 0, 0), (jump_equal, 0, 1, number), (answer, 0, 0, 0x00050000 | ENOLCK),
             (answer, 0, 0, 0x7FFF0000)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    header = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.prctl(seccomp, filter_mode, header, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


class Lock(Train):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        numpy.savez(self.path("data.npz"), input=random.normal(0, 1, (60, 4)).astype("float32"),
                    y=random.integers(0, 3, 60))
        digits.export(torch.nn.Linear(4, 3), self.path("net.pt2"), torch.randn(3, 4))
        self.arguments = ["train", self.path("net.pt2"), "--data", self.path("data.npz"), "-n", "2", "--no-store",
                          "--threads", "1", "--save", self.path("run")]

    def start(self, *more):
        run = subprocess.Popen([BINARY, *self.arguments, "--steps", "100000000", "--quiet", *more],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, run)
        return run

    def end(self, run):
        if run.poll() is None:
            run.kill()
        run.wait()

    def wait_for(self, name, run):
        until = time.monotonic() + 60
        while not os.path.exists(self.path(name)):
            self.assertIsNone(run.poll())
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)

    def step(self):
        with open(self.path("run/report.json"), encoding="utf-8") as text:
            return json.load(text)["run"]["step"]

    def check_refused(self, run, *arguments):
        other = self.workbench(*arguments, expect=1)
        said = rf"\[.*run\] run: got a folder in which process {run.pid} on \S+ has trained since 20\S+Z, expected .*; try .*"
        self.assertRegex(other.stderr, f"^{said}\n$")
        self.assertIn(f" on {socket.gethostname()} has", other.stderr)

    def test_of_a_live_run_keeps_others_out(self):
        run = self.start("--log", self.path("log/"))
        self.wait_for("run/run.safetensors", run)
        with open(self.path("run/run.lock"), encoding="utf-8") as text:
            owner = json.load(text)
        self.assertEqual((owner["pid"], owner["host"]), (run.pid, socket.gethostname()))
        self.wait_for("log/model-0001", run)
        logs = glob.glob(self.path("log/model-*/*"))
        for again in ([*self.arguments, "--overwrite", "--steps", "3", "--log", self.path("log/")],
                      [*self.arguments, "--steps", "3"], ["train", "--resume", self.path("run"), "--no-store"]):
            self.check_refused(run, *again)
        self.assertEqual(glob.glob(self.path("log/model-*/*")), logs)
        self.assertIsNone(run.poll())
        # Nobody but the process outside the sandbox holds it.
        for children in glob.glob(f"/proc/{run.pid}/task/*/children"):
            with open(children, encoding="ascii") as text:
                for child in text.read().split():
                    held = [os.readlink(f) for f in glob.glob(f"/proc/{child}/fd/*")]
                    self.assertEqual([f for f in held if f.endswith(".lock")], [])
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(60), 130)
        self.assertFalse(os.path.exists(self.path("run/run.lock")))
        step = self.step()
        self.workbench("train", "--resume", self.path("run"), "--no-store", "--steps", str(step + 3))
        self.assertEqual(self.step(), step + 3)

    def test_a_closed_stdout_prints_nothing_into_it(self):
        run = subprocess.Popen([BINARY, *self.arguments, "--steps", "100000000", "--save-every", "1"],
                               stderr=subprocess.DEVNULL, preexec_fn=lambda: os.close(1))
        self.addCleanup(self.end, run)
        self.wait_for("run/run.safetensors", run)
        time.sleep(1)  # evaluations, which print progress
        with open(self.path("run/run.lock"), encoding="utf-8") as text:
            self.assertEqual(json.load(text)["pid"], run.pid)

    def test_ends_with_its_process(self):
        run = self.start("--save-every", "1")
        self.wait_for("run/run.safetensors", run)
        run.kill()
        run.wait()
        self.assertTrue(os.path.exists(self.path("run/run.lock")))
        resumed = subprocess.Popen([BINARY, "train", "--resume", self.path("run"), "--no-store", "--quiet"],
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, resumed)
        time.sleep(0.5)
        self.check_refused(resumed, "train", "--resume", self.path("run"), "--no-store")
        resumed.send_signal(signal.SIGTERM)
        self.assertEqual(resumed.wait(60), 130, resumed.stderr.read())
        resumed.stderr.close()

    def test_of_two_that_begin_at_once_one_goes_on(self):
        runs = [self.start() for _ in range(4)]
        until = time.monotonic() + 60
        while sum(r.poll() is None for r in runs) > 1 and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(sorted(r.poll() or 0 for r in runs), [0, 1, 1, 1])
        alive = next(r for r in runs if r.poll() is None)
        self.wait_for("run/run.safetensors", alive)
        self.check_refused(alive, "train", "--resume", self.path("run"), "--no-store")

    def test_leaves_nothing_of_what_is_refused(self):
        self.workbench(*self.arguments[:-1], self.path("some/where/run"), "--lr", "0.1,0.2,0.3", expect=2)
        self.assertFalse(os.path.exists(self.path("some")))

    def test_needs_a_folder_to_write_to(self):
        with open(self.path("file"), "w", encoding="ascii"):
            pass
        refused = self.workbench(*self.arguments[:-1], self.path("file/run"), expect=1)
        self.assertRegex(refused.stderr, r"^\[.*file/run\] writing: got Not a directory, expected a folder to write to; try .*\n$")

    def test_of_a_file_system_without_any_is_said(self):
        run = subprocess.run([BINARY, *self.arguments, "--steps", "3"], capture_output=True, text=True,
                             preexec_fn=without_flock, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        note = "run folder: no lock (No locks available): nothing keeps a second process from writing to it"
        self.assertIn(note, run.stdout)
        self.assertIn(note, self.report()["notes"])
        self.assertFalse(os.path.exists(self.path("run/run.lock")))


if __name__ == "__main__":
    unittest.main()
