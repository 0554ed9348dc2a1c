"""Options of `workbench train` and `predict` that would do nothing, or something else than they seem to."""
import os
import sys
import unittest

import numpy
import torch
from safetensors.torch import load_file, save_file
from sklearn import metrics

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digits
from train_command import Train


class Options(Train):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        self.x = random.normal(1, 2, (120, 6)).astype("float32")
        self.y = (self.x[:, 0] > 1).astype("int64") + (self.x[:, 1] > 2)
        numpy.savez(self.path("data.npz"), input=self.x, y=self.y)
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
        digits.export(self.net, self.path("net.pt2"), torch.randn(4, 6))

    def own(self, i, kind="best"):
        """The network with a model's weights."""
        self.net.load_state_dict(load_file(self.path(f"run/{kind}/model-{i:04d}.safetensors")))
        return self.net

    def table(self, name, columns):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(",".join(columns) + "\n")
            for row in zip(*columns.values()):
                file.write(",".join(map(str, row)) + "\n")


class Useless(Options):
    def test_is_refused(self):
        n = ["-n", "2"]
        self.refused("[dropout] network: got net.pt2, which has no dropout in training", *n, "--set", "dropout=0.3")
        numpy.savez(self.path("real.npz"), input=self.x, y=self.x[:, :3])
        self.refused("[label_smoothing] loss: got mse, expected cross_entropy", *n, "--set", "label_smoothing=0.1", data="real.npz")
        self.refused("[--keep] rows: got no validation rows", *n, "--keep", "1")
        self.refused("[--normalize] input: got input twice, expected it once", *n, "--normalize", "input=standard", "--normalize",
                     "input=0,1")
        for option in ("--patience", "--min-delta", "--check", "--threads"):
            self.refused(f"[workbench train] usage: {option}: got -1, expected a", *n, option, "-1", "--validation", "0.2")

    def test_normalisation_of_whole_numbers(self):
        class Words(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.e, self.f = torch.nn.Embedding(10, 8), torch.nn.Linear(8, 3)

            def forward(self, input):
                return self.f(self.e(input).mean(1))

        words = numpy.random.default_rng(0).integers(0, 10, (60, 5))
        numpy.savez(self.path("words.npz"), input=words, y=self.y[:60])
        digits.export(Words(), self.path("words.pt2"), torch.tensor(words[:4]))
        torch.jit.script(Words().eval()).save(self.path("words.pt"))
        for net in ("words.pt2", "words.pt"):
            self.train("-n", "2", "--epochs", "1", "--no-save", net=net, data="words.npz")
            self.refused("[--normalize] input: got input, which forward takes as whole numbers", "-n", "2", "--normalize",
                         "input=standard", net=net, data="words.npz")

    def test_a_last_batch_of_one_row(self):
        """As torch.nn.BatchNorm refuses it."""
        numpy.savez(self.path("33.npz"), input=self.x[:33], y=self.y[:33])
        net = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3))
        digits.export(net, self.path("norm.pt2"), torch.randn(4, 6))
        torch.jit.script(net.eval()).save(self.path("norm.pt"))
        for file, why in (("norm.pt2", " for the statistics of 1.running_var"), ("norm.pt", ", as forward refuses it in training")):
            self.refused(f"[{file}] last batch: got one row, expected more{why}; try --drop-last", "-n", "2", net=file,
                         data="33.npz")
            self.train("-n", "2", "--drop-last", "--epochs", "1", "--no-save", net=file, data="33.npz")

    def test_a_batch_of_more_rows_than_there_are_is_one_of_all(self):
        """As PyTorch's DataLoader makes it; --drop-last would leave nothing of it."""
        weights = []
        for batch in (64, 33):
            numpy.savez(self.path("33.npz"), input=self.x[:33], y=self.y[:33])
            self.train("-n", "2", "--batch", str(batch), "--epochs", "2", "--order", "sequential", "--overwrite", data="33.npz")
            report = self.report()
            self.assertEqual((report["batch"], report["run"]["steps"]), (33, 2))
            self.assertEqual([n for n in report["notes"] if n.startswith("batches")],
                             ["batches of 33, not 64: there are no more rows to learn from"] if batch > 33 else [])
            weights.append(load_file(self.path("run/last/model-0001.safetensors")))
        for name, tensor in weights[0].items():
            self.assertTrue(torch.equal(tensor, weights[1][name]), name)
        self.refused("[net.pt2] --batch: got 64, expected at most the 33 rows to learn from; try a smaller one", "-n", "2", "--batch",
                     "64", "--drop-last", "--overwrite", data="33.npz")

    def test_defaults_are_what_was_not_said(self):
        self.train("-n", "2", "--lr", "0.01", "--epochs", "1")
        self.assertEqual(sorted(self.report()["defaults"]), ["batch", "loss", "optimizer", "weight_decay"])
        line = self.train("-n", "2", "--overwrite", "--grid", "weight_decay=0.5", "--batch", "60").stdout.splitlines()[0]
        self.assertIn("defaults: epochs 10, loss cross_entropy, lr 0.001, optimizer adamw", line)
        self.train("-n", "2", "--overwrite", "--epochs", "1", "--optimizer", "adamw", "--loss", "cross_entropy")
        self.assertEqual(sorted(self.report()["defaults"]), ["batch", "lr", "weight_decay"])


class Resumed(Options):
    def refused_to_resume(self, message, *arguments):
        run = self.workbench("train", "--resume", self.path("run"), "--no-store", *arguments, expect=2)
        self.assertIn(message, run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1)

    def test_other_options(self):
        self.train("-n", "2", "--epochs", "1", "--warmup", "50%")
        for option in (["--lr", "0.1"], ["--batch", "7"], ["--data", self.path("data.npz")], ["-n", "2"], ["--exact"]):
            name = option[0] if option[0] != "-n" else "--n"
            self.refused_to_resume(f"[--resume] {name}: got it too, expected only what a run may change", *option)
        self.refused_to_resume("[--resume] --epochs: got another length, expected the one that a warmup of 50% is a share of",
                               "--epochs", "4")

    def test_what_was_not_said_at_first(self):
        self.train("-n", "2", "--validation", "0.2")
        before = self.report()["defaults"]
        self.assertEqual(sorted(before), ["batch", "epochs", "loss", "lr", "optimizer", "weight_decay"])
        self.workbench("train", "--resume", self.path("run"), "--no-store")
        self.assertEqual(self.report()["defaults"], before)
        self.workbench("train", "--resume", self.path("run"), "--epochs", "11", "--no-store")
        self.assertEqual(self.report()["defaults"], {key: text for key, text in before.items() if key != "epochs"})


class Split(Options):
    def test_by_class(self):
        """A rare class falls on both sides in its own share, as whole numbers or as the 0 and 1 of bce_with_logits."""
        rare = numpy.arange(120) % 10 == 3
        one = torch.nn.Sequential(torch.nn.Linear(6, 1), torch.nn.Flatten(0))
        digits.export(one, self.path("one.pt2"), torch.randn(4, 6))
        for target, loss, net in ((rare.astype("int64"), "cross_entropy", "net.pt2"),
                                  (rare.astype("float32"), "bce_with_logits", "one.pt2")):
            numpy.savez(self.path("rare.npz"), input=self.x, y=target)
            for seed in range(3):
                self.train("-n", "2", "--loss", loss, "--validation", "0.25", "--epochs", "1", "--seed", str(seed), "--overwrite",
                           net=net, data="rare.npz")
                held = numpy.load(self.path("run/split.npz"))["validation"]
                self.assertEqual((len(held), rare[held].sum()), (30, 3), (loss, seed))
            self.train("--loss", loss, "--folds", "4", "--epochs", "1", "--overwrite", net=net, data="rare.npz")
            fold = numpy.load(self.path("run/oof.npz"))["fold"]
            self.assertEqual([int(rare[fold == k].sum()) for k in range(4)], [3] * 4, loss)


class Overwritten(Options):
    def test_nothing_is_lost_before_the_run_begins(self):
        self.train("-n", "3", "--epochs", "1", "--validation", "0.3")
        files = ["run.safetensors", "report.json", "best/model-0002.safetensors", "last/model-0002.safetensors"]
        for message, options in (("[--set] key: got moment", ["--set", "moment=1"]), ("[--prune] halving: got 1", ["--prune", "1"]),
                                 ("[--patience] rows", ["--patience", "1"])):
            self.refused(message, "-n", "2", "--overwrite", *options)
            for file in files:
                self.assertTrue(os.path.exists(self.path("run/" + file)), file)
        self.refused("[run] --overwrite: got --weights out of it, expected other files", "--weights", self.path("run/last"),
                     "--overwrite")
        self.train("-n", "2", "--epochs", "1", "--plan", self.path("run"), "--overwrite")
        self.assertEqual(sorted(os.listdir(self.path("run/last"))), ["model-0000.safetensors", "model-0001.safetensors"])
        self.assertEqual(os.listdir(self.path("run/best")), [])


class Files(Options):
    def test_of_rows_that_are_predicted_have_what_rows_to_learn_from_have(self):
        features = {f"f{k}": self.x[:, k] for k in range(6)}
        others = {"label": self.y, "w": 1 + numpy.arange(120) % 3, "g": numpy.arange(120) // 7}
        self.table("learn.csv", {**others, **features})
        self.table("features.csv", features)
        self.table("held.csv", {name: all[:40] for name, all in {**features, **others}.items() if name != "g"})
        self.train("--column", "input=x", "--target", "label", "--sample-weight", "w", "--group", "g", "--folds", "3", "--epochs",
                   "1", "--test", self.path("held.csv"), data="learn.csv")
        answers = []
        for data in ("learn.csv", "features.csv"):
            self.workbench("predict", self.path("run"), "--data", self.path(data), "--out", self.path("p.npz"))
            answers.append(numpy.load(self.path("p.npz"))["prediction"])
        self.assertLess(abs(answers[0] - answers[1]).max(), 1e-6)
        self.assertEqual(self.report()["data"]["test_rows"], 40)

    def test_weights_of_a_table_of_models(self):
        for i in range(2):
            save_file({name: tensor + i for name, tensor in self.net.state_dict().items()}, self.path(f"w{i}.safetensors"))
        self.table("models.csv", {"weights": [self.path(f"w{i}.safetensors") for i in (1, 0, 1)], "lr": [0, 0, 0]})
        self.train("--models", self.path("models.csv"), "--epochs", "1")
        for i, start in enumerate((1, 0, 1)):
            for name, tensor in load_file(self.path(f"w{start}.safetensors")).items():
                self.assertTrue(torch.equal(self.own(i, "last").state_dict()[name], tensor), (i, name))


class Folds(Options):
    def test_of_a_column(self):
        row = numpy.arange(120)
        numpy.savez(self.path("f.npz"), input=self.x, y=self.y, f=row % 3 + 1, g=row // 7, few=(row > 118) * 1)
        common = ["--target", "y", "--epochs", "1", "--overwrite"]
        self.refused("[f.npz] column f: got rows of one g in several folds", *common, "--fold", "f", "--group", "g", data="f.npz")
        self.refused("[fold] column f: got 1 to 3, expected folds counted from 0 to 2", *common, "--fold", "f", "-n", "2", "--set",
                     "fold=1", data="f.npz")
        self.refused("[--test] rows: got all of fold ", *common, "--fold", "few", "--test", "0.9", data="f.npz")
        self.train(*common, "--fold", "f", data="f.npz")
        self.assertIn("folds 0 to 2 are the values 1, 2, 3 of column f", self.report()["notes"])
        self.assertTrue((numpy.load(self.path("run/oof.npz"))["fold"] == row % 3).all())


class Labels(Options):
    def test_metrics_of_several_labels_are_scikit_learns(self):
        y = (self.x[:, :3] + numpy.random.default_rng(1).normal(size=(120, 3)) > 1.5).astype("float32")
        numpy.savez(self.path("l.npz"), input=self.x, y=y)
        self.train("-n", "2", "--loss", "bce_with_logits", "--validation", "0.4", "--metric", "accuracy,f1,auc", "--lr", "0.01",
                   "--epochs", "3", data="l.npz")
        held = numpy.load(self.path("run/split.npz"))["validation"]
        for i in range(2):
            with torch.no_grad():
                p = self.own(i)(torch.tensor(self.x[held])).sigmoid().numpy()
            best = self.report()["models"][i]["best"]
            self.assertAlmostEqual(best["accuracy"], metrics.accuracy_score(y[held], p > 0.5), delta=1e-6)
            self.assertAlmostEqual(best["f1"], metrics.f1_score(y[held], p > 0.5, average="macro"), delta=1e-6)
            self.assertAlmostEqual(best["auc"], metrics.roc_auc_score(y[held], p), delta=1e-6)


class Required(Options):
    def test_a_metric_whose_name_begins_as_a_form_does(self):
        class Two(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.f = torch.nn.Linear(6, 3)

            def forward(self, input):
                return self.f(input), self.f(input).square().mean()

        digits.export(Two(), self.path("two.pt2"), torch.randn(4, 6))
        common = ["-n", "2", "--validation", "0.2", "--epochs", "1", "--metric", "min:output.1", "--overwrite"]
        self.train(*common, "--require", "min:output.1<=1e9", "--require", "best:min:output.1<=1e9", net="two.pt2")
        run = self.train(*common, "--require", "min:output.1<0", net="two.pt2", expect=3)
        self.assertIn("[--require] min:output.1<0: got ", run.stderr)


class Predicted(Options):
    def test_what_has_no_classes_or_no_best(self):
        one = torch.nn.Sequential(torch.nn.Linear(6, 1), torch.nn.Flatten(0))
        digits.export(one, self.path("one.pt2"), torch.randn(4, 6))
        numpy.savez(self.path("one.npz"), input=self.x, y=self.x[:, 0])
        self.train("-n", "3", "--epochs", "1", net="one.pt2", data="one.npz")
        for message, options in (("[--apply] softmax: got one number a row", ["--apply", "softmax"]),
                                 ("[--top] models: got a run without validation rows", ["--top", "2"])):
            run = self.workbench("predict", self.path("run"), "--data", self.path("one.npz"), "--out", self.path("p.npz"), *options,
                                 expect=2)
            self.assertIn(message, run.stderr)


if __name__ == "__main__":
    unittest.main()
