"""What tests of trainings over ranks have in common: a small network, and the comparison with the run of one process."""
import json
import os
import signal
import sqlite3
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in (os.path.join(HERE, "..", "train"), os.path.join(HERE, ".."), os.path.join(HERE, "..", "..")):
    sys.path.insert(0, folder)
from ranks import Ranks
from train_command import Train


class RankTraining(Ranks, Train):
    def start(self, ranks, *arguments):
        return self.begin(ranks, "train", *arguments, "--db", self.path("runs.db"))

    def command(self, folder, *arguments):
        return [self.path("net.pt2"), "--data", self.path("data.npz"), "--save", self.path(folder), *arguments]

    def alone(self, folder, *arguments):
        self.workbench("train", *self.command(folder, *arguments), "--quiet", "--db", self.path("runs.db"))

    def document(self, folder):
        with open(self.path(f"{folder}/report.json"), encoding="utf-8") as file:
            return json.load(file)

    def same(self, one, other):
        """Files to the bit; the report and the store but for what tells where, when and how fast it was."""
        for kind in ("best", "last"):
            names = sorted(os.listdir(self.path(f"{one}/{kind}")))
            self.assertEqual(sorted(os.listdir(self.path(f"{other}/{kind}"))), names)
            for name in names:
                self.same_tensors(*(load_file(self.path(f"{run}/{kind}/{name}")) for run in (one, other)), (kind, name))
        self.same_tensors(*({k: v for k, v in load_file(self.path(f"{run}/run.safetensors")).items() if not k.startswith("best.")}
                            for run in (one, other)), "run")
        for name in ("models.csv", "split.npz"):
            with open(self.path(f"{one}/{name}"), "rb") as a, open(self.path(f"{other}/{name}"), "rb") as b:
                self.assertEqual(a.read(), b.read(), name)
        reports = [self.document(run) for run in (one, other)]
        self.fits_the_schema(reports[1])
        for report in reports:
            for key in ("memory", "recordings", "first_call_ns", "loop_seconds"):
                del report[key]
            for key in ("id", "command", "dir", "name", "started", "seconds"):
                del report["run"][key]
            for key in ("date", "command", "cpu", "load", "threads"):  # each rank has its share of the cores
                report["environment"].pop(key, None)
            for row in report["history"]:
                del row["seconds"]
            report["notes"] = [n for n in report["notes"] if "separate runs" not in n and not n.startswith("resumed at step ")]
        for key, value in reports[0].items():
            self.assertEqual(reports[1][key], value, key)
        self.assertEqual(sorted(os.listdir(self.path(other))), sorted(os.listdir(self.path(one))))
        self.same_rows()
        return reports[1]

    def same_tensors(self, one, other, what):
        self.assertEqual(one.keys(), other.keys(), what)
        for key, value in one.items():
            self.assertTrue(torch.equal(value, other[key]), (what, key))

    def same_rows(self):
        """One row a model in the store, which is read without the program."""
        store = sqlite3.connect(self.path("runs.db"))
        self.addCleanup(store.close)
        ids = [i for (i,) in store.execute("SELECT id FROM run ORDER BY id")]
        for sql in ("SELECT model, config, fold, status, at_step, more FROM run_model WHERE run = ? ORDER BY 1",
                    "SELECT model, metric, step, value FROM run_metric WHERE run = ? ORDER BY 1, 2, 3",
                    "SELECT step, model, what FROM run_event WHERE run = ? ORDER BY id",
                    "SELECT n, network, state FROM run WHERE id = ?"):
            one, *others = (store.execute(sql, (i,)).fetchall() for i in ids)
            self.assertTrue(one or "run_event" in sql)
            for other in others:
                self.assertEqual(other, one, sql)

    def await_saved(self, folder, job, more=lambda step: step > 0):
        """Until the run's file is of a step that is wanted, or the job has ended."""
        path = self.path(f"{folder}/run.safetensors")
        while job.poll() is None:
            if os.path.exists(path):
                with safe_open(path, "pt") as file:
                    if more(json.loads(file.metadata()["workbench"])["state"]["step"]):
                        return

    @staticmethod
    def kill(pid, how=signal.SIGKILL):
        try:
            os.kill(pid, how)
        except ProcessLookupError:
            pass  # it was faster
