"""`train --part` and `train --merge`: parts trained apart are the run of all models, to the bit under --exact."""
import csv
import json
import os
import shutil
import sqlite3
import sys
import unittest

import numpy
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import digits
from train_command import Train

COUNT = 3


class Parts(Train):
    def run_whole_and_parts(self, *arguments, numbers=(2, 3, 1)):
        """Trains all models in `run`, and in parts that are merged in `merged`."""
        command = ["train", self.path("net.pt2"), "--data", self.path("data.npz"), "--db", self.path("runs.db"), "--quiet",
                   *arguments]
        self.workbench(*command, "--save", self.path("run"))
        for k in numbers:
            self.workbench(*command, "--part", f"{k}/{COUNT}", "--save", self.path(f"part{k}"))
        self.workbench("train", "--merge", self.path("merged"), *(self.path(f"part{k}") for k in numbers), "--quiet",
                       "--db", self.path("runs.db"))

    def document(self, folder):
        with open(self.path(f"{folder}/report.json"), encoding="utf-8") as file:
            return json.load(file)

    def same_reports(self):
        """All but what tells where, when and how fast it was."""
        whole, merged = self.document("run"), self.document("merged")
        self.fits_the_schema(merged)
        for report in (whole, merged):
            for key in ("memory", "recordings", "first_call_ns", "loop_seconds"):
                del report[key]
            for key in ("id", "command", "dir", "started", "seconds"):
                del report["run"][key]
            for key in ("date", "command", "cpu", "load"):
                report["environment"].pop(key, None)
            for row in report["history"]:
                del row["seconds"]
        notes = [{n for n in r.pop("notes") if "separate runs" not in n} for r in (whole, merged)]
        self.assertEqual(*notes)
        for key, value in whole.items():
            self.assertEqual(merged[key], value, key)
        self.assertEqual(list(merged), list(whole))
        return merged

    def same_files(self):
        """Checkpoints and the run's own file, to the bit."""
        for kind in ("best", "last"):
            names = sorted(os.listdir(self.path(f"run/{kind}")))
            self.assertEqual(sorted(os.listdir(self.path(f"merged/{kind}"))), names)
            for name in names:
                whole, merged = (load_file(self.path(f"{run}/{kind}/{name}")) for run in ("run", "merged"))
                self.assertEqual(whole.keys(), merged.keys())
                for key, value in whole.items():
                    self.assertTrue(torch.equal(value, merged[key]), (kind, name, key))
        whole, merged = (load_file(self.path(f"{run}/run.safetensors")) for run in ("run", "merged"))
        self.assertEqual(whole.keys(), merged.keys())
        for key, value in whole.items():
            if not key.startswith("best."):  # of a model without a best: of no use
                self.assertTrue(torch.equal(value, merged[key]), key)
        for name in ("models.csv", "split.npz"):
            with open(self.path(f"run/{name}"), "rb") as a, open(self.path(f"merged/{name}"), "rb") as b:
                self.assertEqual(a.read(), b.read(), name)

    def same_rows(self):
        """The store's rows of the run of all models, and of that which was merged, read without the program."""
        store = sqlite3.connect(self.path("runs.db"))
        self.addCleanup(store.close)
        ids = [i for (i,) in store.execute("SELECT id FROM run ORDER BY id")]
        self.assertEqual(len(ids), COUNT + 2)
        for sql in ("SELECT model, config, fold, status, at_step, more FROM run_model WHERE run = ? ORDER BY 1",
                    "SELECT model, metric, step, value FROM run_metric WHERE run = ? ORDER BY 1, 2, 3",
                    "SELECT step, model, what FROM run_event WHERE run = ? ORDER BY id",
                    "SELECT n, network, state FROM run WHERE id = ?"):
            whole, merged = (store.execute(sql, (i,)).fetchall() for i in (ids[0], ids[-1]))
            self.assertEqual(whole, merged, sql)

    def test_parts_make_the_whole(self):
        """Seven models: parts of 2, 2 and 3. Some diverge, some stop, one never learns."""
        digits.write(self.folder, 300)
        draws = numpy.random.default_rng(3)
        with open(self.path("models.csv"), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["name", "lr", "weight_decay", "dropout", "colour"])
            for m in range(7):
                lr = 1e30 if m == 3 else 0 if m == 5 else 10 ** draws.uniform(-3.5, -2)
                writer.writerow([f"m{m}", f"{lr:.6g}", f"{10 ** draws.uniform(-5, -1):.6g}", f"{draws.uniform(0, 0.5):.3f}",
                                 "red" if m % 2 else "blue"])
        self.run_whole_and_parts("--models", self.path("models.csv"), "--exact", "--steps", "48", "--eval-every", "8",
                                 "--validation", "0.2", "--test", "0.1", "--patience", "2", "--metric", "accuracy,f1",
                                 "--batch", "25", "--seed", "11")
        document = self.document("merged")
        self.assertEqual([document[key] for key in ("memory", "recordings", "first_call_ns")], [None] * 3)  # of no process
        merged = self.same_reports()
        self.same_files()
        self.same_rows()
        self.assertEqual(len(merged["models"]), 7)
        self.assertGreater(len({m["status"] for m in merged["models"]}), 1)
        self.assertEqual(self.document("part2")["n"], 2)
        self.assertEqual([m["name"] for m in self.document("part3")["models"]], ["m4", "m5", "m6"])
        # Which kernels predict takes is measured anew each time.
        numpy.testing.assert_allclose(self.predicted("run"), self.predicted("merged"), rtol=1e-5)
        # A whole run as any other: it goes on.
        self.workbench("train", "--resume", self.path("merged"), "--steps", "56", "--quiet", "--no-store")

    def predicted(self, run):
        out = self.path(f"{run}.npz")
        self.workbench("predict", self.path(run), "--data", self.path("data.npz"), "--out", out, "--quiet")
        with numpy.load(out) as file:
            return file[file.files[0]]

    def test_folds_orders_frozen_and_own_columns(self):
        """What depends on the first of all models, or is each model's own."""
        torch.manual_seed(1)
        random = numpy.random.default_rng(0)
        numpy.savez(self.path("data.npz"), input=random.normal(0, 3, (5, 40, 4)).astype("float32"),
                    y=random.integers(0, 3, (5, 40)))
        net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
        digits.export(net, self.path("net.pt2"), torch.randn(3, 4))
        self.run_whole_and_parts("-n", "5", "--own", "input,y", "--same-order", "--normalize", "input=standard",
                                 "--freeze", "0.*", "--exact", "--steps", "12", "--eval-every", "4", "--validation", "0.25",
                                 "--loss", "cross_entropy:weight=balanced", "--set", "ema=0.9")
        self.same_reports()
        self.same_files()
        self.same_rows()

    def test_checkpoints(self):
        """Whose frozen weights are equal in some models, not in all: two of the first part, all of the second."""
        random = numpy.random.default_rng(0)
        numpy.savez(self.path("data.npz"), input=random.normal(0, 1, (40, 4)).astype("float32"), y=random.integers(0, 3, 40))
        nets = [torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)) for _ in range(7)]
        digits.export(nets[0], self.path("net.pt2"), torch.randn(3, 4))
        for m, net in enumerate(nets):
            save_file({**net.state_dict(), **({"0.weight": nets[0][0].weight.detach()} if m < 4 else {})},
                      self.path(f"w{m}.safetensors"))
        self.run_whole_and_parts("--weights", *(self.path(f"w{m}.safetensors") for m in range(7)), "--freeze", "0.*",
                                 "--exact", "--steps", "6", "--validation", "0.25")
        self.same_reports()
        self.same_files()

    def test_folds(self):
        digits.write(self.folder, 120)
        self.run_whole_and_parts("--folds", "2", "--seeds", "2", "--exact", "--steps", "8", "--normalize", "x=standard",
                                 "--check", "1")
        self.same_reports()
        self.same_files()
        with numpy.load(self.path("run/oof.npz")) as a, numpy.load(self.path("merged/oof.npz")) as b:
            for name in a.files:
                numpy.testing.assert_array_equal(a[name], b[name])

    def test_what_is_no_whole_is_refused(self):
        digits.write(self.folder, 60)
        numpy.savez(self.path("other.npz"), **{k: v + 1 if k == "x" else v for k, v in numpy.load(self.path("data.npz")).items()})
        common = ["-n", "4", "--steps", "4", "--exact", "--check", "0"]

        def part(text, folder, *more, data="data.npz"):
            self.workbench("train", self.path("net.pt2"), "--data", self.path(data), "--no-store", "--quiet", *common,
                           "--part", text, "--save", self.path(folder), *more)

        def refused(message, *folders, into="merged"):
            run = self.workbench("train", "--merge", self.path(into), *(self.path(f) for f in folders), "--no-store", expect=2)
            self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
            self.assertIn(message, run.stderr.replace(os.path.realpath(self.folder) + "/", "").replace(self.folder + "/", ""))
            self.assertFalse(os.path.exists(self.path("merged/run.safetensors")))

        part("1/2", "one")
        part("2/2", "two")
        part("2/2", "rate", "--lr", "0.5")
        part("2/2", "other", data="other.npz")
        part("2/3", "third")
        self.train(*common, "--quiet")
        refused("[--merge] parts: got 1 of 2, expected 1/2 too; try to add what is missing", "two")
        refused("[one] --merge: got it twice, expected each part once; try to leave one out\n", "one", "two", "one")
        shutil.copytree(self.path("one"), self.path("again"))
        refused("[again] --merge: got part 1/2, which one has too, expected it once; try to leave one out\n", "one", "two", "again")
        refused("[rate] --merge: got part 2/2 with lr 0.5, expected none as in one", "one", "rate")
        refused("[other] --merge: got part 2/2 with other values in column x of --data than in one, expected one training", "one",
                "other")
        refused("[third] --merge: got part 2/3 with a number of parts 3, expected 2 as in one", "one", "third")
        refused("[run] --merge: got a whole run, expected a part; try one of train --part", "one", "run")
        refused("[none] run: got no run.safetensors, expected a run's folder", "one", "none")
        refused("[one] --merge: got a folder with a run in it", "one", "two",
                into="one")
        with safe_open(self.path("two/run.safetensors"), "pt") as file:
            metadata = file.metadata()
        half = json.loads(metadata["workbench"])
        half["state"]["step"] = 2
        for model in half["state"]["models"]:
            model["status"] = "running"
        os.mkdir(self.path("half"))
        save_file(load_file(self.path("two/run.safetensors")), self.path("half/run.safetensors"),
                  {**metadata, "workbench": json.dumps(half)})
        refused("[half] --merge: got part 2/2 at step 2, expected it at its end; try train --resume half", "one", "half")

    def test_equal_files_in_other_places(self):
        """Each machine has its own copies; what is in them counts."""
        digits.write(self.folder, 60)
        with open(self.path("models.csv"), "w", encoding="utf-8") as file:
            file.write("name,lr\na,0.1\nb,0.2\nc,0.3\n")
        with numpy.load(self.path("data.npz")) as file:
            numpy.savez(self.path("held.npz"), **{name: file[name][:20] for name in file.files})
        here = self.path("here")
        os.mkdir(here)
        for name in ("net.pt2", "data.npz", "held.npz", "models.csv"):
            shutil.copy(self.path(name), here)

        def part(text, folder, place):
            self.workbench("train", os.path.join(place, "net.pt2"), "--data", os.path.join(place, "data.npz"), "--validation",
                           os.path.join(place, "held.npz"), "--models", os.path.join(place, "models.csv"), "--steps", "2", "--part",
                           text, "--no-store", "--quiet", "--save", self.path(folder))

        part("1/2", "one", self.folder)
        part("2/2", "two", here)
        merge = ["train", "--merge", self.path("merged"), self.path("one"), self.path("two"), "--no-store"]
        self.workbench(*merge, "--quiet")
        with open(os.path.join(here, "models.csv"), "a", encoding="utf-8") as file:
            file.write("d,0.4\n")
        part("2/2", "three", here)
        self.assertIn("[" + self.path("three") + "] --merge: got part 2/2 with models with other settings than in",
                      self.workbench(*merge[:4], self.path("three"), "--no-store", "--overwrite", expect=2).stderr)

    def test_of_another_network_is_refused(self):
        digits.write(self.folder, 60)
        command = ["train", self.path("net.pt2"), "--data", self.path("data.npz"), "--no-store", "--quiet", "-n", "4", "--steps", "2"]
        self.workbench(*command, "--part", "1/2", "--save", self.path("one"))
        digits.export(digits.Cnn(dropout=0.3), self.path("net.pt2"), torch.randn(5, 1, 8, 8))
        self.workbench(*command, "--part", "2/2", "--save", self.path("two"))
        merge = ("train", "--merge", self.path("merged"), self.path("one"), self.path("two"), "--no-store")
        self.assertIn("--merge: got part 2/2 with another network than in", self.workbench(*merge, expect=2).stderr)
        self.workbench(*command, "--part", "1/2", "--save", self.path("one"), "--overwrite")
        digits.write(self.folder, 60)  # the file that they began with is gone: what the parts learned is not its network's
        self.assertIn("net.pt2] operators and constants: got others", self.workbench(*merge, expect=2).stderr)

    def test_what_needs_all_models_is_refused(self):
        digits.write(self.folder, 60)
        part = ["-n", "2", "--steps", "2", "--part", "1/2", "--validation", "0.2"]
        self.refused("[--prune] models: got --part too, expected one of them, as pruning compares all models", *part,
                     "--prune", "2")
        self.refused("[--require] models: got --part too, expected it where all models are; try it with train --merge",
                     *part, "--require", "loss<=1")
        self.refused("[--bench] models: got --part too", *part, "--bench")
        self.refused("[--part] part: got 3/2, expected K/N with K from 1 to N; try 1/4", *part[:4], "--part", "3/2")
        self.refused("[--part] parts: got 3 of 2 models, expected no more than there are; try 1/2", *part[:4], "--part", "1/3")
        run = self.workbench("train", "--merge", self.path("a"), self.path("b"), "--epochs", "3", expect=2)
        self.assertIn("[--merge] --epochs: got it too, expected only what a run may change: --threads, --log", run.stderr)


if __name__ == "__main__":
    unittest.main()
