"""What a run that goes on holds against what it was: its data, and how far it has been."""
import contextlib
import html
import json
import os
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


class Resumed(Train):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        self.columns = {"input": random.normal(0, 1, (60, 4)).astype("float32"), "y": random.integers(0, 3, 60),
                        "w": random.uniform(0.5, 1, 60)}
        self.more = {name: values[:20] for name, values in self.columns.items()}
        numpy.savez(self.path("data.npz"), **self.columns)
        numpy.savez(self.path("more.npz"), **self.more)
        digits.export(torch.nn.Linear(4, 3), self.path("net.pt2"), torch.randn(3, 4))

    def metadata(self):
        with safe_open(self.path("run/run.safetensors"), "pt") as run:
            return run.metadata()

    def resume(self, *options, expect=0):
        run = self.workbench("train", "--resume", self.path("run"), "--no-store", *options, expect=expect)
        self.assertEqual(run.stderr.count("\n"), 1 if expect else 0, run.stderr)
        return run.stderr.replace(os.path.realpath(self.folder) + "/", "").replace(self.folder + "/", "")


class Kept(Resumed):
    def test_checkpoints_of_a_model_that_is_no_longer_the_best_go(self):
        """Model 0 starts well and learns nothing; the other starts badly and learns."""
        truth = numpy.random.default_rng(1).normal(0, 1, (3, 4)).astype("float32")
        numpy.savez(self.path("data.npz"), input=self.columns["input"], y=(self.columns["input"] @ truth.T).argmax(1))
        weights = []
        for m, scale in enumerate((1, -1)):
            weights += ["--weights", self.path(f"start-{m}.safetensors")]
            save_file({"weight": torch.tensor(scale * truth), "bias": torch.zeros(3)}, weights[-1])
        self.train(*weights, "--lr", "0,0.1", "--validation", "0.3", "--keep", "1", "--epochs", "1")
        for epochs, model in ((1, 0), (100, 1)):
            if model:
                self.resume("--epochs", str(epochs))
            for kind in ("best", "last"):
                self.assertEqual(os.listdir(self.path("run/" + kind)), [f"model-{model:04d}.safetensors"])


class Named(Resumed):
    def test_a_run_keeps_its_name_until_another_is_given(self):
        self.train("-n", "2", "--sample-weight", "w", "--epochs", "1", "--name", "mine")
        for options, name in ((["--epochs", "2"], "mine"), (["--epochs", "3", "--name", "other"], "other"), ([], "other")):
            self.resume(*options)
            self.assertEqual(self.report()["run"]["name"], name)


class Begun(Resumed):
    def change_state(self, change):
        file, metadata = self.path("run/run.safetensors"), self.metadata()
        head = json.loads(metadata["workbench"])
        change(head["state"])
        save_file(load_file(file), file, {**metadata, "workbench": json.dumps(head)})

    def page(self):
        self.workbench("report", self.path("run"), "--html", self.path("page.html"))
        with open(self.path("page.html"), encoding="utf-8") as file:
            return html.unescape(file.read())

    def test_a_run_keeps_the_command_and_the_time_that_it_began_with(self):
        self.workbench("train", self.path("net.pt2"), "--data", self.path("data.npz"), "-n", "2", "--sample-weight", "w", "--epochs", "1",
                       "--save", self.path("run"), "--db", self.path("runs.db"))
        begun = self.report()["run"]
        self.assertIn(self.path("data.npz"), begun["command"])
        self.change_state(lambda state: state.update(started="2001-02-03T04:05:06Z"))
        for count, epochs in enumerate((2, 3), 1):
            self.workbench("train", "--resume", self.path("run"), "--epochs", str(epochs), "--db", self.path("runs.db"))
            report = self.report()
            self.assertEqual((report["run"]["command"], report["run"]["started"]), (begun["command"], "2001-02-03T04:05:06Z"))
            said = [note for note in report["notes"] if note.startswith("resumed at step ")]
            self.assertEqual([int(note.split()[3].rstrip(":")) for note in said], [2, 4][:count])
            self.assertIn(f"train --resume {self.path('run')} --epochs {epochs} --db", said[-1])
            self.assertIn(f"<h3>To repeat it</h3>\n<pre>{begun['command']}</pre>", self.page())
            with contextlib.closing(sqlite3.connect(self.path("runs.db"))) as store:
                (more,), = store.execute("SELECT more FROM run")
            stored = json.loads(more)["run"]
            self.assertEqual((stored["command"], stored["started"]), (begun["command"], "2001-02-03T04:05:06Z"))

    def test_a_file_of_an_earlier_version_has_no_command(self):
        self.train("-n", "2", "--sample-weight", "w", "--epochs", "1")
        self.change_state(lambda state: [state.pop(name) for name in ("command", "started", "resumes")])
        self.resume("--epochs", "2")
        self.assertIn("--resume", self.report()["run"]["command"])


class Killed(Resumed):
    def test_a_run_without_a_report_is_to_be_resumed(self):
        self.train("-n", "2", "--sample-weight", "w", "--epochs", "1")
        os.remove(self.path("run/report.json"))
        folder = self.path("run")
        said = self.workbench("report", folder, expect=2).stderr
        self.assertEqual(said, f"[{folder}] report: got a run that has not ended, expected one with a report; try train --resume "
                               f"{folder}\n")


class Data(Resumed):
    def test_that_have_changed_are_refused(self):
        self.train("-n", "2", "--sample-weight", "w", "--test", self.path("more.npz"), "--validation", "0.3", "--epochs", "1")

        def refused(message, file="data.npz", **columns):
            there = self.columns if file == "data.npz" else self.more
            numpy.savez(self.path(file), **{**there, **columns})
            self.assertEqual(self.resume("--epochs", "2", expect=2), f"[{file}] {message}\n")
            numpy.savez(self.path(file), **there)

        refused("rows: got 50, expected 60 as when the run began; try the file that it began with",
                **{name: values[:50] for name, values in self.columns.items()})
        for name in self.columns:
            values = self.columns[name].copy()
            values[57] = values[57] + 1 if name != "y" else (values[57] + 1) % 3
            refused(f"column {name}: got other values, expected those that the run began with; try the file that it began with",
                    **{name: values})
        refused("column input: got f64 [4], expected f32 [4] as when the run began; try the file that it began with",
                input=self.columns["input"].astype("float64"))
        refused("rows: got 19, expected 20 as when the run began; try the file that it began with", "more.npz",
                **{name: values[:19] for name, values in self.more.items()})
        refused("column y: got other values, expected those that the run began with; try the file that it began with", "more.npz",
                y=(self.more["y"] + 1) % 3)
        self.resume("--epochs", "2")
        self.assertEqual(self.report()["run"]["step"], 4)

    def test_of_a_run_that_kept_nothing_of_them(self):
        """As it was in files of the first versions."""
        self.train("-n", "2", "--epochs", "1", "--target", "y")
        file = self.path("run/run.safetensors")
        metadata = self.metadata()
        del metadata["data"]
        save_file(load_file(file), file, metadata)
        self.columns["input"][3] += 1
        numpy.savez(self.path("data.npz"), **self.columns)
        self.resume("--epochs", "2")

    def test_of_which_a_part_is_looked_at(self):
        rows = 600000
        columns = {"input": numpy.random.default_rng(0).random((rows, 8), dtype="float32"), "y": numpy.arange(rows) % 3}
        numpy.savez(self.path("data.npz"), **columns)
        digits.export(torch.nn.Linear(8, 3), self.path("net.pt2"), torch.randn(3, 8))
        self.train("-n", "1", "--steps", "2")
        self.resume("--steps", "3")
        for row in (0, rows - 1):
            changed = columns["input"].copy()
            changed[row, 7] += 1
            numpy.savez(self.path("data.npz"), input=changed, y=columns["y"])
            self.assertIn("[data.npz] column input: got other values", self.resume("--steps", "4", expect=2))

    def test_folds_and_groups_are_of_the_columns_that_were_asked_for(self):
        kinds = numpy.arange(60) % 3
        for option, column, more in (("--fold", "part", []), ("--group", "person", ["--validation", "0.4", "-n", "2"])):
            numpy.savez(self.path("data.npz"), **self.columns, **{column: kinds})
            self.train(option, column, "--sample-weight", "w", "--epochs", "1", "--overwrite", *more)
            numpy.savez(self.path("data.npz"), **self.columns, **{column: kinds[::-1]})
            self.assertEqual(self.resume("--epochs", "2", expect=2),
                             f"[data.npz] column {column}: got other values, expected those that the run began with; try the file that "
                             "it began with\n")
            numpy.savez(self.path("data.npz"), **self.columns, **{column: kinds})
            metadata, file = self.metadata(), self.path("run/run.safetensors")
            data = json.loads(metadata["data"])
            data["data"]["columns"][-1]["columns"] = option[2:]  # as in files of the first versions
            save_file(load_file(file), file, {**metadata, "data": json.dumps(data)})
            self.resume("--epochs", "2")


class Shares(Resumed):
    """Of all rows, however many of them another option holds back."""

    def held(self):
        return {name: rows.tolist() for name, rows in numpy.load(self.path("run/split.npz")).items() if name in ("train", "validation", "test")}

    def test_beside_each_other(self):
        for rows, validation, test in ((53, 0.2, 0.3), (53, 0.3, 0.2), (60, 0.5, 0.4), (41, 0.1, 0.8)):
            classes = self.columns["y"][:rows]
            numpy.savez(self.path("data.npz"), **{name: values[:rows] for name, values in self.columns.items()})
            self.train("-n", "2", "--epochs", "1", "--sample-weight", "w", "--validation", str(validation), "--test", str(test), "--overwrite")
            held = self.held()
            counts = {"validation": round(validation * rows), "test": round(test * rows)}
            self.assertEqual({name: len(held[name]) for name in counts}, counts)
            self.assertEqual({name: self.report()["data"][f"{name}_rows"] for name in counts}, counts)
            self.assertEqual(sorted(sum(held.values(), [])), list(range(rows)))
            for name, share in (("validation", validation), ("test", test)):
                for c in range(3):
                    self.assertAlmostEqual((classes[held[name]] == c).sum(), share * (classes == c).sum(), delta=1.6, msg=f"{name} {c}")
        self.refused("[--validation] rows: got 0 to learn from and 18 held back, expected some of both; try another fraction",
                     "-n", "2", "--sample-weight", "w", "--validation", "0.6", "--test", "0.55", "--overwrite")

    def test_of_a_run_of_an_earlier_version_stay(self):
        """There `--validation` was a share of what `--test` left: 0.2 of 60 rows is 0.4 of 30."""
        self.train("-n", "2", "--epochs", "1", "--sample-weight", "w", "--validation", "0.2", "--test", "0.5")
        file, metadata, held = self.path("run/run.safetensors"), self.metadata(), self.held()
        self.assertEqual([len(rows) for rows in held.values()], [18, 12, 30])
        head = json.loads(metadata["workbench"])
        head["options"]["validation"] = "0.4"
        for version in range(2):  # and once more, when a resume has written the file
            if version == 0:
                del head["options"]["validation_of_rest"]
                save_file(load_file(file), file, {**metadata, "workbench": json.dumps(head)})
            self.resume("--epochs", str(version + 2))
            self.assertEqual(self.held(), held)
        self.assertEqual(self.report()["data"]["validation_rows"], 12)


class Network(Resumed):
    """The file is read again: what the run computes is as it was, or is refused."""

    class Scaled(torch.nn.Module):
        def __init__(self, scale, dropout=0.5):
            super().__init__()
            self.layer, self.dropout = torch.nn.Linear(4, 3), torch.nn.Dropout(dropout)
            self.scale = torch.tensor(scale)

        def forward(self, input):
            return self.dropout(self.layer(input)) * self.scale

    def export(self, module):
        digits.export(module, self.path("net.pt2"), torch.randn(3, 4))

    def test_another_is_refused(self):
        self.export(self.Scaled([1.0, 2.0, 3.0]))
        self.train("-n", "2", "--epochs", "1", "--target", "y")
        for other in (torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()), self.Scaled([1.0, 2.0, 4.0]),
                      self.Scaled([1.0, 2.0, 3.0], dropout=0.25)):
            self.export(other)
            said = self.resume("--epochs", "2", expect=2)
            predicted = self.workbench("predict", self.path("run"), "--data", self.path("data.npz"), "--out", self.path("out.npz"), expect=2)
            if isinstance(other, self.Scaled):
                self.assertIn("[net.pt2] operators and constants: got others", predicted.stderr.replace(self.folder + "/", ""))
                self.assertEqual(said, "[net.pt2] operators and constants: got others, expected those that the run began with; "
                                       "try the file that it began with\n")
        self.export(self.Scaled([1.0, 2.0, 3.0]))  # other weights: the run has its own
        self.resume("--epochs", "2")
        self.workbench("predict", self.path("run"), "--data", self.path("data.npz"), "--out", self.path("out.npz"))

    def test_of_two_files_the_one_that_was_replaced_is_named(self):
        files, scales = ("net.pt2", "eval.pt2"), ([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])

        def export(file, scale):
            digits.export(self.Scaled(scale), self.path(file), torch.randn(3, 4), train=file == "net.pt2")

        for file in files:
            export(file, scales[0])
        self.train("-n", "2", "--epochs", "1", "--target", "y", "--eval-model", self.path("eval.pt2"))
        for file in files:
            export(file, scales[1])
            said = f"[{file}] operators and constants: got others, expected those that the run began with; try the file that it began with\n"
            self.assertEqual(self.resume("--epochs", "2", expect=2), said)
            predicted = self.workbench("predict", self.path("run"), "--data", self.path("data.npz"), "--out", self.path("out.npz"), expect=2)
            self.assertEqual(predicted.stderr.replace(self.folder + "/", ""), said)
            export(file, scales[0])
        self.resume("--epochs", "2")

    def test_of_a_run_by_another_build_is_not_compared_and_that_is_said(self):
        self.export(self.Scaled([1.0, 2.0, 3.0]))
        self.train("-n", "2", "--epochs", "1", "--target", "y")
        file = self.path("run/run.safetensors")
        metadata = self.metadata()
        metadata["identity"] = json.dumps({**json.loads(metadata["identity"]), "network": "0", "build": "another"})
        save_file(load_file(file), file, metadata)
        self.resume("--epochs", "2")
        self.assertTrue([note for note in self.report()["notes"] if "another build of the program" in note])

    def test_other_models_are_refused(self):
        def table(rate):
            with open(self.path("models.csv"), "w", encoding="utf-8") as file:
                file.write(f"lr,seed\n0.1,3\n{rate},4\n")

        table(0.2)
        self.train("--models", self.path("models.csv"), "--epochs", "1", "--target", "y")
        table(0.3)
        self.assertEqual(self.resume("--epochs", "2", expect=2),
                         "[models.csv] models: got others, expected those that the run began with; try the file that it began with\n")
        table(0.2)
        self.resume("--epochs", "2")


class Stored(Resumed):
    def test_what_a_kill_kept_from_the_store_comes_with_the_resume(self):
        """The run's file is written before the store: a kill between the two leaves rows in the file alone."""
        db = self.path("results.db")
        self.workbench("train", self.path("net.pt2"), "--data", self.path("data.npz"), "--save", self.path("run"), "--db", db, "-n",
                       "2", "--lr", "0.01,1e38", "--optimizer", "sgd", "--epochs", "2", "--target", "y", "--validation", "0.3")
        with sqlite3.connect(db) as store:
            store.execute("DELETE FROM run_metric WHERE step = 2")
            store.execute("DELETE FROM run_event")
        self.workbench("train", "--resume", self.path("run"), "--epochs", "3", "--db", db)
        report = self.report()
        rows = [(row["step"], m, name, value) for row in report["history"] for name, values in row.items() if isinstance(values, list)
                for m, value in enumerate(values) if value is not None]
        self.assertTrue(report["events"])
        with sqlite3.connect(db) as store:
            self.assertEqual(store.execute("SELECT step, model, metric, value FROM run_metric ORDER BY 1, 2, 3").fetchall(), sorted(rows))
            self.assertEqual(store.execute("SELECT step, model, what FROM run_event").fetchall(),
                             [(e["step"], e["model"], e["what"]) for e in report["events"]])


class Length(Resumed):
    def test_shorter_than_it_has_been_is_refused(self):
        self.train("-n", "2", "--epochs", "4", "--target", "y")  # of two steps
        for option, got, steps, least in (("--epochs", 3, 6, 4), ("--steps", 7, 7, 8)):
            self.assertEqual(self.resume(option, str(got), expect=2),
                             f"[--resume] {option}: got {steps} steps in all, expected at least the 8 that are made; try "
                             f"{option} {least}\n")
        self.assertEqual(self.report()["run"]["steps"], 8)
        self.resume("--steps", "8")
        self.resume("--steps", "9")
        self.assertIn("try --epochs 5\n", self.resume("--epochs", "4", expect=2))


if __name__ == "__main__":
    unittest.main()
