"""A preset's targets may be networks of the user's own: their weights and inputs are what a sweep measures, and what
cannot be measured says why."""
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import unittest

import safetensors.torch
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command_line import BINARY, CommandLine, randomised


def network():
    return torch.nn.Sequential(torch.nn.Linear(7, 11), torch.nn.ReLU(), torch.nn.Linear(11, 3))


class Networks(CommandLine):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("nets"))
        self.write_files()

    def write_files(self):
        models = [randomised(network, seed) for seed in range(3)]
        torch.export.save(torch.export.export(models[0], (torch.randn(5, 7),)), self.path("nets/net.pt2"))
        for i, model in enumerate(models):
            self.save(i, model.state_dict())
        safetensors.torch.save_file({"input": torch.randn(3, 5, 7)}, self.path("nets/x.safetensors"))

    def save(self, model, weights):
        safetensors.torch.save_file({k: v.clone() for k, v in weights.items()}, self.path(f"nets/w{model}.safetensors"))

    def preset(self, *targets, **keys):
        text = {"schema": 2, "name": "mine", "description": "d", "sweep": "ci", "budget_s": 0.01,
                "targets": list(targets) or [self.own()], **keys}
        with open(self.path("mine.json"), "w", encoding="utf-8") as file:
            json.dump(text, file)
        return self.path("mine.json")

    @staticmethod
    def own(**keys):
        return {"file": "nets/net.pt2", "weights": ["nets/w*.safetensors"], "inputs": "nets/x.safetensors", "trust": True,
                **keys}

    def cases(self, preset, *arguments, expect=0):
        report = self.path("report.json")
        self.workbench("sweep", preset, "--json", report, "--quiet", *arguments, expect=expect)
        with open(report, encoding="utf-8") as file:
            return json.load(file)["cases"]

    def test_they_are_measured_in_every_phase_beside_registered_ones(self):
        cases = self.cases(self.preset("layernorm", self.own()), "--phase", "forward,backward,step", "--no-store")
        mine = [c for c in cases if c["target"] == "net.pt2"]
        self.assertIn("layernorm", {c["target"] for c in cases})
        self.assertEqual([(c["n"], c["phase"]) for c in mine], [(3, "forward"), (3, "backward"), (3, "step")])
        for case in mine:
            self.assertIn("loop", {b["name"] for b in case["baselines"]})
            self.assertEqual({t["strategy"]: t["status"] for t in case["trials"]}["wide"], "ok", case["trials"])
            for trial in case["trials"]:
                self.assertTrue(trial["correctness"]["pass"])

    def test_weights_and_inputs_are_those_of_the_files(self):
        # In model 2 alone float32 overflows, first in its weights and then in its inputs; float64 does not.
        large = 3e38
        for what in ("weights", "inputs"):
            with self.subTest(what):
                self.write_files()
                weights = randomised(network, 2).state_dict()
                if what == "weights":
                    weights["2.bias"] = torch.full((3,), large)
                    weights["2.weight"] = torch.full((3, 11), large)
                else:
                    weights["0.weight"] = torch.full((11, 7), 8.0)
                    x = torch.randn(3, 5, 7)
                    x[2] = large
                    safetensors.torch.save_file({"input": x}, self.path("nets/x.safetensors"))
                self.save(2, weights)
                [case] = self.cases(self.preset(), "--no-store", "-n", "3", expect=4)
                self.assertEqual({t["status"] for t in case["trials"]}, {"incorrect"})
                [case] = self.cases(self.preset(), "--no-store", "-n", "2")
                self.assertEqual({t["status"] for t in case["trials"]}, {"ok"})

    def test_what_the_end_proposes_for_a_failed_one_runs_in_any_folder(self):
        weights = randomised(network, 2).state_dict()
        weights["2.bias"], weights["2.weight"] = torch.full((3,), 3e38), torch.full((3, 11), 3e38)
        self.save(2, weights)
        os.rename(self.path("nets/net.pt2"), self.path("nets/my net.pt2"))
        preset = self.preset(self.own(file="nets/my net.pt2"))
        text = self.workbench("sweep", preset, "--no-store", "-n", "3", expect=4).stdout
        proposed = re.search(r"^  next: workbench (trace .* --wide 3) shows the programs; first of incorrect", text, re.M)
        self.assertTrue(proposed, text)
        run = subprocess.run([BINARY, *shlex.split(proposed[1])], cwd="/", capture_output=True, text=True, timeout=400)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("# 3 models as they run", run.stdout)

    def test_more_models_than_checkpoints_say_why(self):
        [case] = self.cases(self.preset(), "--no-store", "-n", "4")
        for trial in case["trials"]:
            self.assertEqual(trial["status"], "unsupported")
            self.assertRegex(trial["reason"], r"^\[--n\] .*got 4.*3")

    def test_a_resumed_sweep_knows_them(self):
        db = self.path("own.db")
        preset = self.preset(n=[2, 3])
        self.workbench("sweep", preset, "--db", db, "--quiet")
        with sqlite3.connect(db) as store:
            store.execute("PRAGMA foreign_keys = on")
            store.execute("DELETE FROM timing")
            store.execute("DELETE FROM trial")
            store.execute("UPDATE \"case\" SET state = 'planned'")
            store.execute("UPDATE sweep SET state = 'interrupted'")
        self.workbench("sweep", preset, "--db", db, "--quiet", "--resume")
        with sqlite3.connect(db) as store:
            self.assertEqual(store.execute("SELECT target, n, state FROM \"case\" ORDER BY n").fetchall(),
                             [("net.pt2", 2, "done"), ("net.pt2", 3, "done")])

    def test_what_is_wrong_with_them_is_one_line(self):
        for target, pattern in (
                (self.own(trust=False), r'net\.pt2: got a network from a file, expected "trust": true beside it'),
                ({"weights": []}, r'targets: got a network without a file, expected one; try \{"file": "net.pt2"\}'),
                (self.own(files=1), r"key: got files, expected one of file, inputs, trust, weights"),
                (self.own(weights="w"), r'weights: got "w", expected a list of names')):
            run = self.workbench("sweep", self.preset(target), "--dry-run", expect=2)
            self.assertRegex(run.stderr, pattern)
            self.assertEqual(len(run.stderr.splitlines()), 1)
        run = self.workbench("sweep", self.preset(self.own(), self.own(weights=[])), "--dry-run", expect=2)
        self.assertRegex(run.stderr, r"targets: got two files of the name net\.pt2")
        for name, whose in (("primitives", "that of a group of targets"), ("models", "that of a group of targets"),
                            ("linear", "a registered target's")):
            shutil.copy(self.path("nets/net.pt2"), self.path(f"nets/{name}"))
            for beside in ([], ["layernorm"], [name]):
                run = self.workbench("sweep", self.preset(*beside, self.own(file=f"nets/{name}")), "--dry-run", expect=2)
                self.assertRegex(run.stderr, rf"^\S* *\[mine\] targets: got a file of the name {name}, which is {whose}, expected "
                                             rf"another; try {name}\.pt2\n$")


if __name__ == "__main__":
    unittest.main()
