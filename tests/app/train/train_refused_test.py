"""What `workbench train` refuses: values that are no values, options that would do nothing, and what its lines say to try."""
import csv
import json
import os
import shutil
import sys
import unittest

import numpy
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digits
from train_command import Train


class Refused(Train):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        self.x = random.normal(1, 2, (120, 6)).astype("float32")
        self.y = (self.x[:, 0] > 1).astype("int64") + (self.x[:, 1] > 2)
        numpy.savez(self.path("data.npz"), input=self.x, y=self.y, g=numpy.arange(120) // 7)
        self.common = ["--target", "y"]
        digits.export(torch.nn.Linear(6, 3), self.path("net.pt2"), torch.randn(4, 6))

    def lines(self, *cases, **files):
        """Each case: a part of the line, then options; with `-n 2` where these say nothing of it."""
        for message, *options in cases:
            shutil.rmtree(self.path("run"), ignore_errors=True)  # of a case that was not refused
            with self.subTest(options=options):
                self.refused(message, *self.common, *([] if "-n" in options else ["-n", "2"]), *options, **files)
                self.assertFalse(os.path.exists(self.path("run")), options)

    def table(self, *rows):
        with open(self.path("m.csv"), "w", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
        return self.path("m.csv")


class Values(Refused):
    def test_that_are_none(self):
        validated = ["--validation", "0.2"]
        for text in ("3,x", "3,1,x", "x,3", "3,,1", "3,1,", "2.5"):
            self.lines((f"[--prune] halving: got {text}, expected FACTOR of at least 2 and GRACE", "--prune", text, *validated))
        self.lines(
            ("[train] schedule step: got every 3.7, expected a whole number", "--schedule", "step:3.7,0.5"),
            ("[--loss] ignore_index: got 1.7, expected a whole number", "--loss", "cross_entropy:ignore_index=1.7"),
            ("[--loss] weight: got it twice", "--loss", "cross_entropy:weight=1,1,1:weight=balanced"),
            ("[--loss] weight: got , expected a number", "--loss", "cross_entropy:weight=1,,1"),
            ("[--loss] output: got none, expected the number of one of forward's", "--loss", "output"),
            ("[--loss] output: got 3, expected one of forward's 1, from 0; try output.0", "--loss", "output.3"),
            ("[lr] value: got 1,,2, expected a number", "--lr", "1,,2"),
            ("[lr] value: got 1,2,, expected a number", "--lr", "1,2,"),
            ("[lr] value: got inf, expected a finite number from 0 on; try 0.001", "--lr", "inf"),
            ("[clip] value: got -1, expected a finite number from 0 on; try 0", "--set", "clip=-1"),
            ("[nesterov] value: got 0.5, expected 0 or 1", "--optimizer", "sgd", "--momentum", "0.9", "--set", "nesterov=0.5"),
            ("[ema] value: got 1, expected less than 1", "--set", "ema=1"),
            ("[models] count: got 99999999999, expected no more than fit in", "-n", "99999999999"),
            ("--seed: got -1, expected a number from 0 on", "--seed", "-1"),
            ("[fold] folds: got none, expected some to choose from; try --folds 5", "--set", "fold=0"))

    def test_of_dropout(self):
        net = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(6, 3))
        digits.export(net, self.path("drop.pt2"), torch.randn(4, 6))
        for text in ("-0.5", "-1", "1.5"):
            self.lines((f"[dropout] value: got {text}, expected 0 to 1; try 0.1", "--set", "dropout=" + text), net="drop.pt2")

    def test_of_augmentation(self):
        numpy.savez(self.path("images.npz"), input=numpy.ones((40, 1, 6, 6), "float32"), y=self.y[:40])
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 3))
        digits.export(net, self.path("image.pt2"), torch.randn(4, 1, 6, 6))
        self.lines(("[--augment] crop: got it twice", "--augment", "crop:1,crop:2"),
                   ("[--augment] flip: got it twice", "--augment", "flip,flip"),
                   ("[--augment] cutout: got 100, expected at most 6", "--augment", "cutout:100"),
                   ("[--augment] crop: got 7, expected at most 6", "--augment", "crop:7"), net="image.pt2", data="images.npz")


class WithoutEffect(Refused):
    def test_options(self):
        self.lines(
            ("[--own] column: got nope, expected one that is used: input, y", "--own", "nope"),
            ("[--own] column: got g, expected one that is used", "--own", "g"),
            ("[--group] rows: got none that are split", "--group", "g"),
            ("[--group] rows: got none that are split", "--group", "g", "--validation", self.path("data.npz")),
            ("[--min-delta] rows: got no validation rows", "--min-delta", "0.1"),
            ("[seed] value: got 9007199254740992, expected", "--set", "seed=9007199254740993"),
            ("[--no-save] run: got --keep too", "--no-save", "--keep", "1", "--validation", "0.2"),
            ("[--no-save] run: got --save-every too", "--no-save", "--save-every", "5"))
        for use in (["--validation", "0.2"], ["--test", "0.2"]):
            self.train(*self.common, "-n", "2", "--group", "g", *use, "--epochs", "1", "--no-save")


class Columns(Refused):
    def of(self, *header):
        return ["--models", self.table(header, [0.1] * len(header), [0.2] * len(header))]

    def test_of_a_table_that_are_no_labels(self):
        self.common = [*self.common]
        for column in ("batch", "Batch Size", "batch_size", "optimizer", "Optimizer", "optim", "sizes", "hidden_dim", "num_layers",
                       "n_layers", "width", "widths", "heads", "num_heads", "Schedule"):
            self.lines((f"[m.csv] {column}: got a key that changes the program", *self.of("lr", column)))
        for column, key in (("learning_rate", "lr"), ("Learning-Rate", "lr"), ("wd", "weight_decay"), ("dropout_rate", "dropout"),
                            ("num_epochs", "epochs")):
            self.lines((f"[m.csv] {column}: got another name of {key}, expected this one; try {key}", *self.of(column)))
        for column, key in (("LR", "lr"), ("weight-decay", "weight_decay"), ("droupout", "dropout"), ("Name", "name"),
                            ("seeds", "seed"), ("Seed.Init", "seed.init"), ("Epochs", "epochs"), ("wieghts", "weights")):
            self.lines((f"[m.csv] column {column}: got a label that is nearly the key {key}", *self.of(column)))
        for column in ("model", "status", "best.loss", "test.loss"):
            self.lines((f"[m.csv] column {column}: got a label that the run's tables have a column of", *self.of("lr", column)))
        self.lines(("[--set] learning_rate: got another name of lr", "--set", "learning_rate=0.1"))

    def test_of_a_table_that_are_labels(self):
        models = self.table(["lr", "team", "id", "epsilon"], [0.1, "red", 4, 1], [0.2, "blue", 5, 2])
        line = self.train(*self.common, "--models", models, "--epochs", "1").stdout.splitlines()[0]
        self.assertIn(" · labels epsilon, id, team · ", line)
        self.assertEqual([m["labels"]["team"] for m in self.report()["models"]], ["red", "blue"])
        with open(self.path("run/models.csv"), encoding="utf-8") as file:
            head = next(csv.reader(file))
        self.assertEqual(len(set(head)), len(head))
        self.assertNotIn("dropout", head)
        self.assertNotIn("dropout", self.report()["models"][0]["hyperparameters"])
        rows = list(csv.DictReader(self.workbench("report", self.path("run"), "--csv", "-").stdout.splitlines()))
        self.assertEqual([(row["lr"], row["team"], row["id"], row["epsilon"]) for row in rows],
                         [("0.1", "red", "4", "1"), ("0.2", "blue", "5", "2")])


class Said(Refused):
    def test_what_to_try(self):
        validated = ["--validation", "0.2"]
        one = torch.nn.Sequential(torch.nn.Linear(6, 1), torch.nn.Flatten(0))
        digits.export(one, self.path("one.pt2"), torch.randn(4, 6))
        digits.export(torch.nn.Linear(6, 1), self.path("one1.pt2"), torch.randn(4, 6))
        for net in ("one.pt2", "one1.pt2"):
            self.lines(("expected one, as whole numbers as target and one output a row fit several; try --loss mse", ), net=net)
        self.lines(
            ("[--dtype] dtype: got bf16, expected f32 or f64", "--dtype", "bf16"),
            ("[--dtype] dtype: got f16, expected f32 or f64", "--dtype", "f16"),
            ("expected standard or MEAN,STD with STD above 0", "--normalize", "input=1,0"),
            ("try --normalize input=standard", "--normalize", "input"),
            ("[--require] models: got max, expected mean, min, best or ensemble; try best:loss<1", *validated, "--require",
             "max:loss<1"),
            ("[--require] metric: got loss, expected one of diverged; try --validation 0.2", "--require", "loss<1"),
            ("[--against] rows: got no validation rows, expected some to compare by; try --validation 0.2", "--against",
             self.other()))
        weights = []
        for i in range(2):
            weights.append(self.path(f"w{i}.pt"))
            torch.save(torch.nn.Linear(6, 3).state_dict(), weights[-1])
        self.lines(("[models] count: got 2 from --weights and 3 from -n", "--weights", *weights, "-n", "3"))

    def other(self, *options, name="other"):
        """Another run's folder, its report without validation unless `options` say so."""
        self.train(*self.common, "-n", "2", "--epochs", "1", *options)
        os.rename(self.path("run"), self.path(name))
        return self.path(name)

    def test_of_tables(self):
        with open(self.path("d.csv"), "w", encoding="utf-8") as file:
            csv.writer(file).writerows([["y", *(f"f{k}" for k in range(6))], *([y, *x] for x, y in zip(self.x, self.y))])
        self.lines(("[d.csv] input input: got no column of this name, expected one of y, f0, f1, f2, f3, f4, f5; try --column input=x, which "
                    "is all that have no other meaning\n", ), data="d.csv")
        self.train(*self.common, "-n", "2", "--column", "input=x", "--epochs", "1", data="d.csv")
        self.assertEqual(self.report()["data"]["columns"]["inputs"], {"input": [f"f{k}" for k in range(6)]})
        shutil.rmtree(self.path("run"))
        for name in ("e.csv", "e.npz", "e.npy", "e.safetensors"):
            open(self.path(name), "w", encoding="utf-8").close()
            self.lines((f"[{name}] data: got an empty file, expected a data set; try another file\n", ), data=name)
        self.train(*self.common, "-n", "2", "--epochs", "1", data="data.npz")
        run = self.workbench("predict", self.path("run"), "--data", self.path("d.csv"), "--out", self.path("p.npz"), expect=2)
        self.assertIn("as the data of the run have it; try to name one so", run.stderr)

    def test_ranges_of_dynamic_batches(self):
        for name, least, most in (("min", 2, None), ("max", 1, 16), ("fixed", None, None)):
            rows = {0: torch.export.Dim("rows", min=least, max=most)} if least else None
            net = torch.export.export(torch.nn.Linear(6, 3), (torch.randn(4, 6),), dynamic_shapes=(rows,))
            torch.export.save(net, self.path(name + ".pt2"))
        self.lines(("[min.pt2] --batch: got 1, expected 2 or more, as its dynamic batch dimension was exported; try 2", "--batch",
                    "1"), net="min.pt2")
        self.lines(("[max.pt2] --batch: got 20, expected at most 16, as its dynamic batch dimension was exported; try 16", "--batch",
                    "20"), net="max.pt2")
        self.lines(("[fixed.pt2] --batch: got 7, expected 4 as exported", "--batch", "7"), net="fixed.pt2")
        self.train(*self.common, "-n", "2", "--epochs", "1", net="max.pt2")
        self.assertIn("batches of 16, not 32: more are not in the range of the exported batch dimension", self.report()["notes"])
        self.assertEqual(self.report()["batch"], 16)

    def test_runs_that_are_not_there(self):
        good = self.other("--validation", "0.2", name="good")
        nothing = self.other(name="nothing")
        missing = self.path("missing")
        for arguments in (["compare", missing, good], ["compare", good, missing], ["report", missing]):
            run = self.workbench(*arguments, expect=2)
            self.assertIn("[missing] ", run.stderr.replace(self.folder + "/", ""), arguments)
        run = self.workbench("report", "missing", "--db", self.path("no.db"), expect=2)
        self.assertIn("a run's folder", run.stderr)
        for which, runs in (("after", [good, nothing]), ("before", [nothing, good])):
            run = self.workbench("compare", *runs, expect=2)
            self.assertIn(f"[compare] run {which}: got no loss of validation rows, expected one to compare by", run.stderr)
        self.refused("[compare] run before: got no loss of validation rows", *self.common, "-n", "2", "--validation", "0.2", "--against",
                     nothing)
        self.assertFalse(os.path.exists(self.path("run")))


class Results(Refused):
    def test_all_that_is_unmet_is_said(self):
        run = self.train(*self.common, "-n", "2", "--epochs", "1", "--validation", "0.2", "--metric", "accuracy", "--require",
                         "accuracy>=2", "--require", "loss <= 1e9", "--require", " min:loss < -1 ", expect=3)
        self.assertEqual(run.stderr.count("\n"), 2, run.stderr)
        for text in ("[--require] accuracy>=2: got ", "[--require]  min:loss < -1 : got "):
            self.assertIn(text, run.stderr)
        run = self.train(*self.common, "--lr", "1e-3,3e38", "--optimizer", "sgd", "--epochs", "2", "--require", "diverged==0",
                         "--overwrite", expect=3)
        self.assertIn("expected == 0; try a smaller --lr or --set clip=1", run.stderr)

    def test_rows_of_folds(self):
        run = self.train(*self.common, "--folds", "3", "--lr", "0.1", "--epochs", "1")
        self.assertIn(" · 120 rows in 3 folds · ", run.stdout.splitlines()[0])
        self.assertEqual(self.report()["data"]["rows"], 120)

    def test_a_metric_that_is_never_a_number(self):
        numpy.savez(self.path("v.npz"), input=self.x[:9], y=numpy.zeros(9, int))
        run = self.train(*self.common, "-n", "2", "--epochs", "2", "--monitor", "auc", "--validation", self.path("v.npz"))
        self.assertIn("2 of 2 models have no best: auc of the validation rows was never a number", run.stdout)

    def test_rows_on_standard_output(self):
        run = self.train(*self.common, "-n", "2", "--epochs", "2", "--validation", "0.2", "--log", "-")
        rows = list(csv.DictReader(run.stdout.splitlines()))
        self.assertEqual([(row["step"], row["model"]) for row in rows], [("4", "0"), ("4", "1"), ("8", "0"), ("8", "1")] if
                         rows[0]["step"] == "4" else [("3", "0"), ("3", "1"), ("6", "0"), ("6", "1")])
        self.assertIn("epoch 2 · step", run.stderr)

    def test_compare_counts_the_models_of_both_runs(self):
        for name, seeds in (("a", "5"), ("b", "2")):
            self.train(*self.common, "--seeds", seeds, "--lr", "0.1", "--epochs", "1", "--validation", "0.2")
            os.rename(self.path("run"), self.path(name))
        for before, after in (("a", "b"), ("b", "a")):
            self.workbench("compare", self.path(before), self.path(after), "--json", self.path("c.json"))
            with open(self.path("c.json"), encoding="utf-8") as file:
                compared = json.load(file)
            self.assertEqual((compared["pairs"], compared["alone"]), (2, 3))


if __name__ == "__main__":
    unittest.main()
