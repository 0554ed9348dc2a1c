"""`workbench train --log`, also of runs that are killed; TensorBoard's files are read as their format says."""
import csv
import json
import os
import shutil
import struct
import subprocess
import sys
import time
import unittest

import numpy
import torch
from safetensors.torch import save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import digits
from train_command import Train

LR = [1e-3, 2e-3, 3e-3]


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def records(data):
    """Of a file of TFRecords: length, its masked checksum, data, theirs."""
    def masked(part):
        crc = crc32c(part)
        return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff
    while data:
        length, of_length = struct.unpack("<QI", data[:12])
        body, of_body = data[12:12 + length], struct.unpack("<I", data[12 + length:16 + length])[0]
        assert of_length == masked(data[:8]) and of_body == masked(body)
        yield body
        data = data[16 + length:]


def fields(data):
    """(number, value) of a protobuf message."""
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value
    at = 0
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        elif key & 7 == 2:
            length = varint()
            value, at = data[at:at + length], at + length
        else:
            form = {1: "<d", 5: "<f"}[key & 7]
            value, = struct.unpack_from(form, data, at)
            at += struct.calcsize(form)
        yield key >> 3, value


class Logged(Train):
    def rows_of_events(self):
        """(model, step, {name: value}) of the scalars; hyperparameters and times are looked at on the way."""
        rows = []
        self.assertEqual(sorted(os.listdir(self.path("log"))), [f"model-{m:04d}" for m in range(3)])
        for model in range(3):
            with open(self.path(f"log/model-{model:04d}/events.out.tfevents.workbench"), "rb") as file:
                head, session, *rest = [dict(fields(record)) for record in records(file.read())]
            self.assertEqual(head[3], b"brain.Event:2")
            (_, value), = fields(session[5])
            tag, metadata = (dict(fields(value))[number] for number in (1, 9))
            self.assertEqual(tag, b"_hparams_/session_start_info")
            plugin = dict(fields(dict(fields(metadata))[1]))
            self.assertEqual(plugin[1], b"hparams")
            entries = [dict(fields(value)) for number, value in fields(dict(fields(plugin[2]))[3]) if number == 1]
            hyper = {e[1].decode(): dict(fields(e[2])).popitem()[1] for e in entries}
            self.assertEqual((hyper["lr"], hyper["seed"], hyper["weight_decay"]), (LR[model], model, 0.01))
            times = [event[1] for event in rest]
            self.assertEqual(times, sorted(times))
            for event in rest:
                self.assertLess(abs(time.time() - event[1]), 600)
                values = [dict(fields(value)) for _, value in fields(event[5])]
                rows.append((model, event[2], {v[1].decode(): v[2] for v in values}))
        return rows

    def rows_of_csv(self):
        with open(self.path("log.csv"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text.count("step"), 1)
        return [(int(row["model"]), int(row["step"]), {k: float(row[k]) for k in ("train_loss", "loss", "accuracy")})
                for row in csv.DictReader(text.splitlines())]

    def rows_of_lines(self):
        with open(self.path("log.jsonl"), encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        return [(row["model"], row["step"], {k: row[k] for k in ("train_loss", "loss", "accuracy")}) for row in rows]

    def logged_as_reported(self, rows, steps):
        """Each evaluation of each model once, with the report's values."""
        history = self.report()["history"]
        self.assertEqual([row["step"] for row in history], steps)
        self.assertEqual(sorted(row[:2] for row in rows), [(m, step) for m in range(3) for step in steps])
        reported = {row["step"]: row for row in history}
        for model, step, values in rows:
            self.assertEqual(sorted(values), ["accuracy", "loss", "train_loss"])
            for name, value in values.items():
                self.assertAlmostEqual(value, reported[step][name][model], delta=1e-6)

    def test_evaluations_of_models_that_skipped_all_steps(self):
        """Of models that did not learn since the last evaluation, no row is left out: it has no train_loss."""
        self.linear_network_and_data()
        data = dict(numpy.load(self.path("data.npz")))
        numpy.savez(self.path("data.npz"), **data, w=numpy.r_[numpy.zeros(16), numpy.ones(64)].astype("float32"))
        held = {name: torch.tensor(column[-20:]) for name, column in data.items()}
        numpy.savez(self.path("held.npz"), **{name: column.numpy() for name, column in held.items()}, w=numpy.ones(20, "float32"))
        torch.manual_seed(3)
        net = torch.nn.Linear(4, 3)
        save_file(net.state_dict(), self.path("start.safetensors"))
        begun = torch.nn.functional.cross_entropy(net.double()(held["input"].double()), held["y"]).item()
        begin = ["--target", "y", "--sample-weight", "w", "--validation", self.path("held.npz"), "-n", "3", "--lr",
                 ",".join(map(str, LR)), "--steps", "4", "--batch", "16", "--order", "sequential", "--eval-every", "1", "--overwrite"]
        for _ in range(3):
            begin += ["--weights", self.path("start.safetensors")]
        for log in ("log.csv", "log.jsonl", "log/"):
            self.train(*begin, "--log", self.path(log))
            self.skipped_first(log, 4, begun)
            self.workbench("train", "--resume", self.path("run"), "--steps", "5", "--no-store")  # writes all rows again
            self.skipped_first(log, 5, begun)

    def skipped_first(self, log, steps, begun):
        if log == "log/":
            rows = [(model, step, values.get("train_loss"), values["loss"]) for model, step, values in self.rows_of_events()]
        else:
            with open(self.path(log), encoding="utf-8") as file:
                rows = [json.loads(line) for line in file] if log == "log.jsonl" else list(csv.DictReader(file))
            rows = [(int(r["model"]), int(r["step"]), r["train_loss"], float(r["loss"])) for r in rows]
        self.assertEqual(sorted(row[:2] for row in rows), [(m, step) for m in range(3) for step in range(1, steps + 1)])
        for _, step, train_loss, loss in rows:
            self.assertEqual(train_loss in (None, ""), step == 1)
            if step == 1:
                self.assertAlmostEqual(loss, begun, delta=1e-5)

    def killed(self, log, file, save_every):
        """A run of 600 steps, killed when it has logged a few evaluations."""
        if os.path.isdir(log):
            shutil.rmtree(log)
        elif os.path.exists(log):
            os.remove(log)
        process = subprocess.Popen(
            [os.environ["WORKBENCH_BINARY"], "train", self.path("net.pt2"), "--data", self.path("data.npz"),
             "--no-store", "--save", self.path("run"), "-n", "3", "--lr", ",".join(map(str, LR)), "--steps", "600",
             "--validation", "0.2", "--metric", "accuracy", "--check", "0", "--eval-every", "60", "--save-every",
             str(save_every), "--log", log, "--overwrite"], stdout=subprocess.DEVNULL)
        begun, end = None, time.monotonic() + 60
        while time.monotonic() < end:
            size = os.path.getsize(file) if os.path.exists(file) else None
            begun = size if begun is None else begun
            if size is not None and size > begun + 150:
                break
            time.sleep(0.0005)
        process.kill()
        process.wait()
        self.assertFalse(os.path.exists(self.path("run/report.json")))

    def test_killed_runs_log_every_evaluation_once(self):
        digits.write(self.folder, 100)
        steps = list(range(60, 601, 60))
        kinds = (("log/", "log/model-0000/events.out.tfevents.workbench", self.rows_of_events),
                 ("log.csv", "log.csv", self.rows_of_csv), ("log.jsonl", "log.jsonl", self.rows_of_lines))
        for log, file, rows in kinds:
            # What was logged is made once more, all of it or what is newer than the saved state.
            for save_every in (1000, 80):
                self.killed(self.path(log), self.path(file), save_every)
                self.assertGreater(os.path.getsize(self.path(file)), 0)
                self.workbench("train", "--resume", self.path("run"), "--no-store")
                self.logged_as_reported(rows(), steps)
            self.workbench("train", "--resume", self.path("run"), "--steps", "660", "--no-store")
            self.logged_as_reported(rows(), [*steps, 660])

    def test_what_is_refused_loses_no_row(self):
        digits.write(self.folder, 100)
        options = ["-n", "3", "--lr", ",".join(map(str, LR)), "--steps", "3", "--validation", "0.2", "--metric",
                   "accuracy", "--schedule", "cosine", "--log"]
        self.train(*options, self.path("log/"))
        self.logged_as_reported(self.rows_of_events(), [3])
        run = self.workbench("train", "--resume", self.path("run"), "--steps", "6", "--no-store", expect=2)
        self.assertIn("expected the one that the cosine schedule ends with", run.stderr)
        self.logged_as_reported(self.rows_of_events(), [3])
        self.refused("[log/] --log: got a folder with a run in it, expected a new one; try another folder or "
                     "--overwrite", *options, self.path("log"))
        self.logged_as_reported(self.rows_of_events(), [3])
        self.workbench("train", "--resume", self.path("run"), "--log", self.path("log.csv"), "--no-store")
        self.logged_as_reported(self.rows_of_csv(), [3])


if __name__ == "__main__":
    unittest.main()
