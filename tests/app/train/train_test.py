"""`workbench train` and `predict` on real data, against PyTorch and scikit-learn."""
import csv
import json
import os
import subprocess
import sys
import time
import unittest

import numpy
import torch
from safetensors.torch import load_file, save_file
from sklearn import metrics

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digits
from train_command import Train


class Digits(Train):
    def test_sixty_four_networks(self):
        x, y = digits.write(self.folder)
        run = self.train("-n", "64", "--lr", "log:1e-3..1e-2", "--weight-decay", "lin:0..0.1", "--epochs", "3",
                         "--validation", "0.2", "--metric", "accuracy,f1,auc,ece,top5", "--check", "1", "--seed", "5")
        self.assertIn("1 dropout switched on for training", run.stdout.splitlines()[0])
        report = self.report()
        self.assertEqual({m["status"] for m in report["models"]}, {"trained"})
        self.assertEqual([m["seeds"]["init"] for m in report["models"]], list(range(5, 69)))
        split = numpy.load(self.path("run/split.npz"))
        held = split["validation"]
        self.assertEqual(sorted([*held, *split["train"]]), list(range(len(y))))
        counts = numpy.bincount(y[held]) / numpy.bincount(y)
        self.assertTrue((abs(counts - 0.2) < 0.01).all(), counts)
        for i in (0, 17, 63):
            model = digits.Cnn()
            model.load_state_dict(load_file(self.path(f"run/best/model-{i:04d}.safetensors")), strict=True)
            with torch.no_grad():
                output = model.eval()(torch.tensor(x[held]))
            loss = torch.nn.functional.cross_entropy(output.double(), torch.tensor(y[held])).item()
            p = output.double().softmax(1).numpy()
            best = report["models"][i]["best"]
            self.assertAlmostEqual(loss, best["loss"], delta=1e-5)
            right = (p.argmax(1) == y[held]).sum()
            self.assertLessEqual(abs(right - round(best["accuracy"] * len(held))), 1)
            self.assertAlmostEqual(metrics.f1_score(y[held], p.argmax(1), average="macro"), best["f1"], delta=2e-3)
            self.assertAlmostEqual(metrics.roc_auc_score(y[held], p, multi_class="ovr"), best["auc"], delta=1e-5)
            self.assertAlmostEqual(metrics.top_k_accuracy_score(y[held], p, k=5), best["top5"], delta=3e-3)
        self.assertGreater(max(m["best"]["accuracy"] for m in report["models"]), 0.9)

    def test_folds(self):
        x, y = digits.write(self.folder, 400)
        self.train("--folds", "4", "--seeds", "2", "--epochs", "2", "--normalize", "x=standard")
        oof = numpy.load(self.path("run/oof.npz"))
        self.assertEqual(oof["prediction"].shape, (2, 400, 10))
        self.assertTrue((oof["target"] == y).all())
        for s in range(2):
            for fold in range(4):
                index = oof["model"][s, fold]
                self.assertEqual(self.report()["models"][index]["fold"], fold)
                rest, held = x[oof["fold"] != fold], x[oof["fold"] == fold]
                mean = rest.astype("float64").mean((0, 2, 3), keepdims=True)
                std = rest.astype("float64").std((0, 2, 3), keepdims=True)
                model = digits.Cnn()
                model.load_state_dict(load_file(self.path(f"run/best/model-{index:04d}.safetensors")))
                with torch.no_grad():
                    p = model.eval()(torch.tensor(((held - mean) / std).astype("float32"))).softmax(1).numpy()
                self.assertLess(abs(p - oof["prediction"][s, oof["fold"] == fold]).max(), 1e-5)

    def test_predict(self):
        x, y = digits.write(self.folder, 300)
        self.train("-n", "3", "--epochs", "2", "--normalize", "x=standard", "--validation", "0.25", "--lr", "3e-3")
        many = numpy.random.default_rng(0).random((2500, 1, 8, 8), dtype="float32")
        numpy.savez(self.path("more.npz"), x=many)
        train = numpy.load(self.path("run/split.npz"))["train"]
        mean, std = (getattr(x[train].astype("float64"), f)((0, 2, 3)) for f in ("mean", "std"))
        normal = torch.tensor(((many - mean) / std).astype("float32"))
        outputs = []
        for i in range(3):
            model = digits.Cnn()
            model.load_state_dict(load_file(self.path(f"run/best/model-{i:04d}.safetensors")))
            with torch.no_grad():
                outputs.append(model.eval()(normal))
        outputs = torch.stack(outputs)
        p = outputs.softmax(2)
        for out, more, expected in (("a.npz", [], p.mean(0)), ("b.npz", ["--reduce", "none", "--apply", "none"], outputs),
                                    ("c.npz", ["--reduce", "std"], p.std(0)),
                                    ("d.npz", ["--reduce", "vote"], torch.mode(p.argmax(2), 0).values)):
            self.workbench("predict", self.path("run"), "--data", self.path("more.npz"), "--out", self.path(out), *more)
            got = torch.tensor(numpy.load(self.path(out))["prediction"])
            self.assertEqual(got.shape, expected.shape)
            if out != "d.npz":  # votes that are even go to the first
                self.assertLess((got - expected).abs().max(), 1e-5)
            else:
                self.assertGreater((got == expected).float().mean(), 0.8)
        self.workbench("predict", self.path("run"), "--data", self.path("more.npz"), "--out", self.path("a.csv"))
        table = list(csv.reader(open(self.path("a.csv"), encoding="utf-8")))
        self.assertEqual(table[0], ["row", *map(str, range(10))])
        self.assertLess(abs(numpy.array(table[1:], dtype=float)[:, 1:] - p.mean(0).numpy()).max(), 1e-5)


class Tables(Train):
    def test_a_table_of_numbers(self):
        random = numpy.random.default_rng(1)
        x = random.normal(3, 2, (90, 4))
        y = x @ [1, -2, 0.5, 0] + random.normal(0, 0.1, 90)
        with open(self.path("t.csv"), "w", encoding="utf-8") as file:
            file.write("a,b,y,c,d,w\n" + "".join(f"{r[0]},{r[1]},{t},{r[2]},{r[3]},{1 + i % 3}\n"
                                                  for i, (r, t) in enumerate(zip(x, y))))
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1), torch.nn.Flatten(0))
        digits.export(net, self.path("n.pt2"), torch.randn(3, 4))
        self.train("--column", "input=x", "--target", "y", "--sample-weight", "w", "-n", "3", "--lr", "0.01,0.02,0.03",
                   "--normalize", "input=standard", "--validation", "0.3", "--metric", "mae,rmse,r2", "--epochs", "30",
                   "--batch", "16", "--optimizer", "adam", net="n.pt2", data="t.csv")
        held = numpy.load(self.path("run/split.npz"))["validation"]
        train = numpy.load(self.path("run/split.npz"))["train"]
        weight = 1 + numpy.arange(90) % 3
        for i, model in enumerate(self.report()["models"]):
            net.load_state_dict(load_file(self.path(f"run/best/model-{i:04d}.safetensors")))
            with torch.no_grad():
                out = net(torch.tensor((x[held] - x[train].mean(0)) / x[train].std(0)).float()).numpy()
            w = weight[held]
            best = model["best"]
            self.assertAlmostEqual(best["loss"], (w * (out - y[held]) ** 2).sum() / w.sum(), delta=1e-4)
            self.assertAlmostEqual(best["mae"], metrics.mean_absolute_error(y[held], out, sample_weight=w), delta=1e-4)
            self.assertAlmostEqual(best["rmse"], metrics.root_mean_squared_error(y[held], out, sample_weight=w), delta=1e-4)
            self.assertAlmostEqual(best["r2"], metrics.r2_score(y[held], out, sample_weight=w), delta=1e-4)


class Steps(Train):
    """Steps as torch.optim makes them, from given weights."""

    def steps(self, *arguments, make, epochs=2, batch=10, rows=30):
        models = []
        for i in range(3):
            torch.manual_seed(i)
            models.append(torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3)))
            save_file(models[i].state_dict(), self.path(f"w{i}.safetensors"))
        x, y = torch.randn(3, rows, 5), torch.randint(0, 3, (3, rows))
        save_file({"input": x, "y": y}, self.path("d.safetensors"))
        digits.export(models[0], self.path("n.pt2"), torch.randn(3, 5))
        self.train("--weights", *[self.path(f"w{i}.safetensors") for i in range(3)], "--own", "input,y", "--order",
                   "sequential", "--epochs", str(epochs), "--batch", str(batch), *arguments, net="n.pt2", data="d.safetensors")
        for i, model in enumerate(models):
            model.double()
            optimizer = make(model.parameters(), i)
            for _ in range(epochs):
                for begin in range(0, rows, batch):
                    optimizer.zero_grad()
                    loss = torch.nn.functional.cross_entropy(model(x[i, begin:begin + batch].double()), y[i, begin:begin + batch])
                    loss.backward()
                    optimizer.step()
            got = load_file(self.path(f"run/last/model-{i:04d}.safetensors"))
            for name, tensor in model.state_dict().items():
                self.assertLess((got[name] - tensor).abs().max(), 2e-5, (i, name))

    def test_sgd_with_a_ragged_last_batch(self):
        self.steps("--optimizer", "sgd", "--lr", "0.1,0.2,0.05", "--momentum", "0.9", batch=8,
                   make=lambda p, i: torch.optim.SGD(p, lr=[0.1, 0.2, 0.05][i], momentum=0.9))

    def test_adamw(self):
        self.steps("--set", "weight_decay=0.1,0,0.3", "--lr", "0.01", "--set", "beta1=0.8",
                   make=lambda p, i: torch.optim.AdamW(p, lr=0.01, weight_decay=[0.1, 0, 0.3][i], betas=(0.8, 0.999)))


class Going(Train):
    def test_what_was_interrupted_goes_on(self):
        """A run that is killed and resumed ends as one that was not, bit for bit: before its first step, and later."""
        digits.write(self.folder, 500)
        common = [os.environ["WORKBENCH_BINARY"], "train", self.path("net.pt2"), "--data", self.path("data.npz"),
                  "--no-store", "-n", "4", "--validation", "0.2", "--check", "0", "--save-every", "7", "--lr", "1e-3"]
        for name, how, written in (("exact", ["--exact"], 0), ("measured", [], 2)):
            first, whole, cut = (self.path(f"{name}-{run}") for run in ("first", "whole", "cut"))
            base = [*common, *how, "--epochs", "4"]
            subprocess.run([*base, "--save", first], check=True, capture_output=True, timeout=300)
            base += ["--plan", first]
            subprocess.run([*base, "--save", whole], check=True, capture_output=True, timeout=300)
            self.killed([*base, "--save", cut], os.path.join(cut, "run.safetensors"), written)
            self.assertFalse(os.path.exists(os.path.join(cut, "report.json")))
            self.workbench("train", "--resume", cut, "--no-store")
            for kind in ("best", "last"):
                for i in range(4):
                    a, b = (load_file(os.path.join(run, kind, f"model-{i:04d}.safetensors")) for run in (whole, cut))
                    for tensor in a:
                        self.assertTrue(torch.equal(a[tensor], b[tensor]), (name, kind, i, tensor))
            a, b = (json.load(open(os.path.join(run, "report.json"), encoding="utf-8")) for run in (whole, cut))
            self.assertEqual([(h["step"], h["loss"], h["train_loss"]) for h in a["history"]],
                             [(h["step"], h["loss"], h["train_loss"]) for h in b["history"]])

    def killed(self, command, file, written):
        """Runs it until the file is there and was written so many times more."""
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        times, end = set(), time.monotonic() + 120
        while len(times) <= written and time.monotonic() < end:
            if os.path.exists(file):
                times.add(os.stat(file).st_mtime_ns)
            time.sleep(0.002)
        process.kill()
        process.wait()

    def test_one_that_diverges_disturbs_nobody(self):
        digits.write(self.folder, 300)
        self.train("-n", "3", "--lr", "1e-3,1e30,1e-3", "--epochs", "2", "--validation", "0.2")
        models = self.report()["models"]
        self.assertEqual([m["status"] for m in models], ["trained", "diverged", "trained"])
        self.fits_the_schema(self.report())
        last = load_file(self.path("run/last/model-0001.safetensors"))
        self.assertTrue(all(t.isfinite().all() for t in last.values()))

    def test_halving_and_patience(self):
        digits.write(self.folder, 300)
        self.train("-n", "9", "--lr", "log:1e-5..1e-2", "--epochs", "4", "--validation", "0.2", "--prune", "3")
        statuses = [m["status"] for m in self.report()["models"]]
        self.assertEqual((statuses.count("trained"), statuses.count("pruned")), (1, 8))
        self.train("-n", "2", "--lr", "0", "--epochs", "6", "--validation", "0.2", "--patience", "2", "--overwrite")
        self.assertEqual([(m["status"], m["at_step"]) for m in self.report()["models"]], [("stopped", 24)] * 2)

    def test_any_number_of_threads(self):
        digits.write(self.folder, 100)
        for threads in ("1", "2", "3"):  # kernels that wait for threads that never come hang here
            with self.subTest(threads=threads):
                run = subprocess.run([os.environ["WORKBENCH_BINARY"], "train", self.path("net.pt2"), "--data",
                                      self.path("data.npz"), "-n", "8", "--epochs", "1", "--no-save", "--no-store",
                                      "--threads", threads], capture_output=True, text=True, timeout=60)
                self.assertEqual(run.returncode, 0, run.stderr)

    def test_what_is_required(self):
        digits.write(self.folder, 200)
        run = self.train("-n", "2", "--epochs", "1", "--validation", "0.2", "--metric", "accuracy", "--require",
                         "accuracy>=0.999", "--require", "diverged==0", expect=3)
        self.assertRegex(run.stderr, r"^\[--require\] accuracy>=0.999: got 0\.\d+, expected >= 0.999; try .*\n$")


class Together(Train):
    def test_the_mean_answer(self):
        """Of probabilities; of folds by the models that never saw the row."""
        x, y = digits.write(self.folder, 300)
        self.train("-n", "3", "--epochs", "2", "--lr", "3e-3", "--validation", "0.3", "--test", "0.2", "--metric", "accuracy")
        report, split = self.report(), numpy.load(self.path("run/split.npz"))
        for rows in ("validation", "test"):
            held = split[rows]
            outputs = []
            for i in range(3):
                model = digits.Cnn()
                model.load_state_dict(load_file(self.path(f"run/best/model-{i:04d}.safetensors")))
                with torch.no_grad():
                    outputs.append(model.eval()(torch.tensor(x[held])).double().softmax(1).numpy())
            p = numpy.mean(outputs, 0)
            got = report["ensemble"][rows]
            self.assertAlmostEqual(got["loss"], metrics.log_loss(y[held], p, labels=range(10)), delta=1e-5)
            self.assertAlmostEqual(got["accuracy"], (p.argmax(1) == y[held]).mean(), delta=1e-9)
        self.train("--folds", "3", "--seeds", "2", "--epochs", "1", "--metric", "accuracy", "--require",
                   "ensemble:accuracy>=1.5", "--overwrite", expect=3)
        p = numpy.load(self.path("run/oof.npz"))["prediction"].mean(0)
        self.assertAlmostEqual(self.report()["ensemble"]["validation"]["loss"], metrics.log_loss(y, p, labels=range(10)), delta=1e-5)

    def test_against_another_run(self):
        digits.write(self.folder, 300)
        common = ["--seeds", "4", "--lr", "3e-3", "--validation", "0.3"]
        self.train(*common, "--epochs", "4")
        other = ["--save", self.path("other"), "--against", self.path("run"), "--fail-on-regression", "5"]
        command = ["train", self.path("net.pt2"), "--data", self.path("data.npz"), "--no-store", *other]
        worse = self.workbench(*command, *common, "--epochs", "1", expect=3)
        self.assertIn("WORSE loss over 4 pairs", worse.stdout)
        self.assertRegex(worse.stderr, r"^\[--against\] loss: got .* over 4 pairs of models, expected at most 5 % worse")
        self.workbench(*command, *common, "--epochs", "4", "--overwrite")
        run = self.workbench(*command, "--seeds", "4", "--validation", "0.3", "--overwrite", expect=2)
        self.assertIn("[compare] models: got no two of the same configuration and seeds", run.stderr)
        self.assertNotIn("epoch", run.stdout)  # before the first step
        self.refused("[--fail-on-regression] run: got none", "-n", "2", "--overwrite", "--fail-on-regression", "5")


class Exported(Train):
    def test_to_files_that_need_nothing_else(self):
        """Answers of the exports are those of the checkpoints, rows normalised as in training, of each fold by its own."""
        x, _ = digits.write(self.folder, 200)
        files = [self.path("wide.pt2"), self.path("wide.ts")]
        self.train("--folds", "2", "--seeds", "2", "--epochs", "2", "--lr", "3e-3", "--normalize", "x=standard", "--batch", "16",
                   "--export", files[0], "--export", files[1])
        fold, rows = numpy.load(self.path("run/split.npz"))["fold"], x[:16]
        expected = []
        for i in range(4):
            model = digits.Cnn()
            model.load_state_dict(load_file(self.path(f"run/best/model-{i:04d}.safetensors")))
            learned = x[fold != i % 2].astype("float64")
            normal = (rows - learned.mean((0, 2, 3))) / learned.std((0, 2, 3))
            with torch.no_grad():
                expected.append(model.eval()(torch.tensor(normal.astype("float32"))))
        inputs = torch.tensor(rows).expand(4, 16, 1, 8, 8).contiguous()
        for module in (torch.export.load(files[0]).module(), torch.jit.load(files[1])):
            with torch.no_grad():
                self.assertLess((module(inputs) - torch.stack(expected)).abs().max(), 1e-5)
        self.refused("expected .pt2", "-n", "2", "--overwrite", "--export", self.path("wide.onnx"))


class Stored(Train):
    def test_reports(self):
        digits.write(self.folder, 200)
        db = ["--db", self.path("results.db")]
        for name, lr in (("a", "1e-3"), ("b", "3e-3")):
            self.workbench("train", self.path("net.pt2"), "--data", self.path("data.npz"), "--seeds", "3", "--set",
                           f"lr={lr}", "--epochs", "2", "--validation", "0.2", "--name", name, "--save", self.path(name), *db)
        listed = json.loads(self.workbench("list", "runs", "--json", *db).stdout)["runs"]
        self.assertEqual([(r["name"], r["n"], r["state"], r["models"]) for r in listed],
                         [("b", 3, "complete", {"trained": 3}), ("a", 3, "complete", {"trained": 3})])
        with open(self.path("a/report.json"), encoding="utf-8") as file:
            saved = json.load(file)
        self.workbench("report", "run:1", "--json", self.path("stored.json"), *db)
        with open(self.path("stored.json"), encoding="utf-8") as file:
            stored = json.load(file)
        self.fits_the_schema(saved)
        self.fits_the_schema(stored)
        self.assertEqual(saved["checked_steps"], 3)
        self.assertGreater(saved["first_call_ns"], 0)
        self.assertEqual(stored["models"], saved["models"])
        self.assertEqual([(h["step"], h["loss"]) for h in stored["history"]], [(h["step"], h["loss"]) for h in saved["history"]])
        losses = [m["best"]["loss"] for m in saved["models"]]
        config, = saved["configs"]
        self.assertAlmostEqual(config["mean"], numpy.mean(losses))
        self.assertAlmostEqual(config["sd"], numpy.std(losses, ddof=1))
        self.assertIn("lr=0.001", self.workbench("report", self.path("a"), "--by", "lr").stdout)
        for option in (["--targets", "linear"], ["--csv-suite", self.path("suite")], ["--over", "loop"], ["--published"]):
            run = self.workbench("report", self.path("a"), *option, expect=2)
            self.assertIn(f"[{option[0]}] report: got a training run, expected a sweep", run.stderr)
        for form in ("csv", "html", "junit"):
            self.workbench("report", "run:last", f"--{form}", self.path("r." + form), *db)
            self.assertGreater(os.path.getsize(self.path("r." + form)), 200)
        with self.subTest("models of other hyperparameters are paired by their seeds"):
            run = self.workbench("compare", "run:1", "run:2", "--json", self.path("c.json"), *db)
            self.assertIn("paired by seeds alone", run.stdout)
            with open(self.path("c.json"), encoding="utf-8") as file:
                compared = json.load(file)
            with open(self.path("b/report.json"), encoding="utf-8") as file:
                changes = [m["best"]["loss"] - loss for m, loss in zip(json.load(file)["models"], losses)]
            self.assertEqual((compared["pairs"], compared["paired_by"]), (3, "seeds"))
            self.assertAlmostEqual(compared["change"]["mean"], numpy.mean(changes))
            self.assertAlmostEqual(compared["change"]["sd"], numpy.std(changes, ddof=1))
        self.assertIn("SAME loss over 3 pairs", self.workbench("compare", self.path("a"), self.path("a")).stdout)


class Frozen(Train):
    def test_is_kept_once_and_as_it_was(self):
        """Adapters on one base: its memory is there once, its values as given, theirs are trained."""
        digits.write(self.folder, 200)
        frozen = ["--freeze", "c1.*,c2.*", "--epochs", "2"]
        model = digits.Cnn()
        names = [name for name, _ in model.named_parameters()]
        bytes_of = {name: 4 * p.numel() for name, p in model.named_parameters()}
        digits.export(model, self.path("net.pt2"), torch.randn(4, 1, 8, 8))
        for start in (["--init", "file"], ["--set", "seed.init=3"]):
            run = self.train("-n", "6", *frozen, *start, "--overwrite")
            self.assertIn("4 frozen", run.stdout.splitlines()[0])
            base = sum(bytes_of[name] for name in names if name.startswith("c"))
            head = sum(bytes_of[name] for name in names if name.startswith("f"))
            self.assertLessEqual(self.report()["memory"]["state_bytes"], base + 6 * 3 * head + 4096)
            last = [load_file(self.path(f"run/last/model-{i:04d}.safetensors")) for i in range(6)]
            for name in names:
                same = all(torch.equal(last[0][name], other[name]) for other in last[1:])
                self.assertEqual(same, name.startswith("c"), name)
        self.train("-n", "6", *frozen, "--init", "file", "--overwrite")
        last = load_file(self.path("run/last/model-0005.safetensors"))
        for name, tensor in model.state_dict().items():
            self.assertEqual(torch.equal(last[name], tensor), name.startswith("c"), name)


class Refused(Train):
    def test_lines(self):
        digits.write(self.folder, 100)
        n = ["-n", "2"]
        self.refused("[models] count: got none, expected N models; try -n 8")
        self.refused("[lr] value: got fast, expected a number, a list, a range or a draw", *n, "--lr", "fast")
        self.refused("[lr] range: got log:0..1, expected ends above 0", *n, "--lr", "log:0..1")
        self.refused("[--set] key: got moment, expected one of", *n, "--set", "moment=0.9")
        self.refused("[--momentum] momentum: got a hyperparameter of", *n, "--momentum", "0.9")
        self.refused("[--set] batch: got a key that changes the program", *n, "--set", "batch=3")
        self.refused("[models] count: got 2 from -n and 3 from the list of lr", *n, "--lr", "1,2,3")
        self.refused("[--grid] lr: got log:1..2, expected a list", "--grid", "lr=log:1..2")
        self.refused("[--metric] metric: got r2 with cross_entropy", *n, "--metric", "r2", "--validation", "0.2")
        self.refused("[--metric] metric: got acuracy, expected one of", *n, "--metric", "acuracy", "--validation", "0.2")
        self.refused("[--patience] rows: got no validation rows", *n, "--patience", "3")
        self.refused("[--validation] fraction: got 1.5, expected between 0 and 1", *n, "--validation", "1.5")
        self.refused("[--folds] folds: got 1, expected at least 2", "--folds", "1")
        self.refused("[--loss] key of cross_entropy: got delta", *n, "--loss", "cross_entropy:delta=1")
        self.refused("[--column] argument: got z, expected one of forward's: x", *n, "--column", "z=x")
        self.refused("[--freeze] glob: got head*, which no parameter matches", *n, "--freeze", "head*")
        self.refused("[--output] output: got 3, expected one of forward's 1", *n, "--output", "3")
        self.refused("[--normalize] input: got y, expected one of forward's", *n, "--normalize", "y=standard")
        self.refused("[--require] metric: got f1, expected one of", *n, "--require", "f1>0.5")
        self.refused("[--log] file: got log.txt, expected FILE.csv", *n, "--log", self.path("log.txt"))

    def test_data(self):
        x, y = digits.write(self.folder, 50)
        numpy.savez(self.path("high.npz"), x=x, y=y + 5)
        self.refused("expected 0 to 9 as the network has 10 outputs", "-n", "2", data="high.npz")
        numpy.savez(self.path("short.npz"), x=x, y=y[:30])
        self.refused("column y: got 30 rows, expected 50", "-n", "2", data="short.npz")
        numpy.savez(self.path("nan.npz"), x=numpy.where(x == x.max(), numpy.nan, x), y=y)
        self.refused("column x: got nan or inf in row", "-n", "2", data="nan.npz")
        numpy.savez(self.path("wide.npz"), x=x, y=y.astype("float32")[:, None])
        self.refused("sizes are never broadcast", "-n", "2", "--loss", "mse", data="wide.npz")
        far = numpy.ones((50, 10))
        far[7, 3] = 1e300  # infinite for a loss in float32
        numpy.savez(self.path("far.npz"), x=x, y=far)
        self.refused("column y: got nan or inf in row 7", "-n", "2", "--loss", "mse", data="far.npz")
        numpy.savez_compressed(self.path("packed.npz"), x=x, y=y)
        self.refused("got it compressed, expected it as it is; try to save it with numpy.savez", "-n", "2", data="packed.npz")
        with open(self.path("cut.npz"), "wb") as file, open(self.path("data.npz"), "rb") as whole:
            file.write(whole.read()[:5000])
        self.refused("[cut.npz] zip archive: got no end record", "-n", "2", data="cut.npz")
        with open(self.path("gap.csv"), "w", encoding="utf-8") as file:
            file.write("a,y\n1,2\n,3\n")
        self.refused("[gap.csv] line 3, column a: got nothing, expected a number", "-n", "2", data="gap.csv")

    def test_starts(self):
        x, _ = digits.write(self.folder, 50)
        model = digits.Cnn()
        torch.nn.init.orthogonal_(model.f.weight)
        digits.export(model, self.path("orthogonal.pt2"), torch.tensor(x[:4]))
        self.refused("[orthogonal.pt2] tensor f.weight: got values unlike those of a new torch.nn.Linear", "-n", "2", net="orthogonal.pt2")
        self.train("-n", "2", "--init", "file", "--lr", "0", "--epochs", "1", "--check", "0", net="orthogonal.pt2")
        last = load_file(self.path("run/last/model-0001.safetensors"))
        self.assertTrue(torch.equal(last["f.weight"], model.f.weight))
        self.refused("[run] --save: got a folder with a run in it", "-n", "2")
        torch.jit.trace(model.eval(), torch.tensor(x[:4])).save(self.path("traced.ts"))
        self.refused("[traced.ts] forms: got aten::dropout with a constant train", "-n", "2", "--overwrite", net="traced.ts")


if __name__ == "__main__":
    unittest.main()
