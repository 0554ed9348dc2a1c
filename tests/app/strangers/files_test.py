"""Reports, presets, stores, checkpoints and pipes that nobody vouches for end in one line."""
import json
import os
import sqlite3
import struct
import subprocess
import unittest

import torch
from safetensors.torch import save_file

from archive import add, write
from bounded import BINARY, Strangers

WEIGHT = {"w": (7, [4], struct.pack("<4f", 1, 2, 3, 4))}
ESCAPES = "\x1b]0;owned\x07\x1b[2J\u009b31m"


class Files(Strangers):
    def text(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def checkpoint(self, name, tensor):
        header = json.dumps({tensor: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}})
        header = header.encode() + b" " * (-len(header.encode()) % 8)
        with open(self.path(name), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + bytes(16))
        return self.path(name)

    def test_reports_that_nest(self):
        for depth in (1000, 200000):
            path = self.text("deep.json", '{"schema":' + "[" * depth + "]" * depth + "}")
            self.refused("report", path, says="levels")
            self.refused("compare", path, path, says="levels")

    def test_presets_that_nest(self):
        path = self.text("deep.json", '{"schema":' + "[" * 200000 + "]" * 200000 + "}")
        self.refused("sweep", path, "--no-store", says="nesting")

    def test_pipes(self):
        pipe = self.path("pipe.pt2")
        os.mkfifo(pipe)
        write(self.path("net.pt2"), [add("y", "x", "p_w")], weights=WEIGHT)
        network = self.path("net.pt2")
        self.refused("fuse", pipe, "-n", "2", "--no-store", says="pipe.pt2")
        self.refused("trace", pipe, says="pipe.pt2")
        self.refused("fuse", network, "--weights", pipe, "--no-store", says="pipe.pt2")
        self.refused("fuse", network, "--inputs", pipe, "-n", "2", "--no-store", says="pipe.pt2")
        for ending in (".json", ".safetensors", ".pt"):
            os.mkfifo(self.path("p" + ending))
        self.refused("report", self.path("p.json"), says="p.json")
        self.refused("compare", self.path("p.json"), self.path("p.json"), says="p.json")
        self.refused("sweep", self.path("p.json"), "--no-store", says="p.json")
        for ending in (".safetensors", ".pt"):
            self.refused("fuse", network, "--weights", self.path("p" + ending), "--no-store",
                         says="p" + ending)
        self.refused("list", "sweeps", "--db", pipe, code=1, says="pipe.pt2")

    def test_names_that_are_long(self):
        write(self.path("net.pt2"), [add("y", "x", "p_w")], weights=WEIGHT)
        for name in ("." * 800000, "_orig_mod." * 80000):
            path = self.checkpoint("w.safetensors", name)
            self.refused("fuse", self.path("net.pt2"), "--weights", path, "--no-store",
                         says="4096")
        write(self.path("net.pt2"), [add("y", "x", "p_w")],
              weights={"w" + ".a" * 400000: WEIGHT["w"]})
        save_file({"w": torch.ones(4)}, self.path("w.safetensors"))
        self.refused("fuse", self.path("net.pt2"), "--weights", self.path("w.safetensors"),
                     "--no-store")

    def assert_plain(self, text):
        for sign in "\x1b\x07\u009b":
            self.assertNotIn(sign, text)

    def test_names_that_a_terminal_obeys(self):
        name = "w" + ESCAPES
        write(self.path("net.pt2"), [add("y", "x", "p_" + name)], weights={name: WEIGHT["w"]})
        self.assert_plain(self.taken("trace", self.path("net.pt2"), "--wide", "2"))
        self.assert_plain(self.taken("fuse", self.path("net.pt2"), "-n", "2", "--no-store",
                                     "--explain"))
        path = self.checkpoint("w.safetensors", ESCAPES)
        self.assert_plain(self.refused("fuse", self.path("net.pt2"), "--weights", path,
                                       "--no-store"))

    def store(self):
        write(self.path("net.pt2"), [add("y", "x", "p_w")], weights=WEIGHT)
        self.taken("sweep", "quick", "--device", "cpu", "--targets", "linear", "--n", "2", "--db",
                   self.path("s.db"), "--quiet", "--budget", "0.01")
        return sqlite3.connect(self.path("s.db"))

    def test_stored_texts(self):
        with self.store() as store:
            store.execute("UPDATE sweep SET name = ?, command = ?", (ESCAPES, ESCAPES))
            store.execute("UPDATE trial SET reason = ?, verdict = ?", (ESCAPES, ESCAPES))
        store.close()
        for command in (["list", "sweeps"], ["report", "last"]):
            self.assert_plain(self.taken(*command, "--db", self.path("s.db")))

    def test_stores_that_are_damaged(self):
        with self.store() as store:
            store.execute("PRAGMA foreign_keys = OFF")
            store.execute("UPDATE timing SET trial = trial + 1000")
        store.close()
        self.refused("report", "last", "--db", self.path("s.db"), code=1, says="damaged")

    def test_stores_that_nest(self):
        with self.store() as store:
            store.execute("PRAGMA ignore_check_constraints = ON")
            store.execute("UPDATE sweep SET changes = ?", ("[" * 200000 + "]" * 200000,))
        store.close()
        self.refused("report", "last", "--db", self.path("s.db"), code=1, says="damaged")


if __name__ == "__main__":
    unittest.main()
