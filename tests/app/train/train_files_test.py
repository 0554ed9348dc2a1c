"""What `workbench train`, its neighbours and its reports write: never over what they read, and all that was asked for."""
import json
import os
import sys
import unittest

import numpy
import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digits
from train_command import Train


class Files(Train):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        self.x = random.normal(1, 2, (60, 6)).astype("float32")
        self.y = (self.x[:, 0] > 1).astype("int64") + (self.x[:, 1] > 2)
        numpy.savez(self.path("data.npz"), input=self.x, y=self.y)
        digits.export(torch.nn.Linear(6, 3), self.path("net.pt2"), torch.randn(4, 6))

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def json_of(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)


class Apart(Files):
    def keeps(self, name, message, *command):
        before = self.bytes_of(name)
        run = self.workbench(*command, expect=2)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertIn(message, run.stderr)
        self.assertEqual(self.bytes_of(name), before, command)

    def test_no_output_replaces_an_input(self):
        with open(self.path("d.csv"), "w", encoding="utf-8") as file:
            file.write("y,f0,f1,f2,f3,f4,f5\n" + "".join(f"{y},{','.join(map(str, x))}\n" for x, y in zip(self.x, self.y)))
        os.mkdir(self.path("w"))
        for i in range(2):
            save_file(torch.nn.Linear(6, 3).state_dict(), self.path(f"w/model-{i}.safetensors"))
        save_file({"input": torch.randn(2, 4, 6)}, self.path("i.safetensors"))
        os.symlink(self.path("data.npz"), self.path("link.npz"))
        net, data = self.path("net.pt2"), self.path("data.npz")
        train = ["train", net, "--no-store", "--epochs", "1", "--quiet"]
        some = [*train, "-n", "2", "--data", data, "--save", self.path("run")]
        weights = [*train, "--data", data, "--save", self.path("run"), "--weights", self.path("w")]
        self.workbench(*some)
        oof = [*train, "-n", "2", "--data", self.path("run/models.csv"), "--save", self.path("run"), "--overwrite"]
        fuse = ["fuse", net, "--no-store", "--quiet", "--weights", self.path("w"), "--inputs", self.path("i.safetensors")]
        predict = ["predict", self.path("run"), "--data", data, "--out"]
        report = self.path("run/report.json")
        for name, option, command in (
                ("d.csv", "--log", [*train, "-n", "2", "--data", self.path("d.csv"), "--no-save", "--column", "input=x", "--target",
                                    "y", "--log", self.path("d.csv")]),
                ("net.pt2", "--export", [*some, "--overwrite", "--export", net]),
                ("net.pt2", "--json", [*some, "--overwrite", "--json", os.path.join(self.folder, "run", "..", "net.pt2")]),
                ("w/model-1.safetensors", "--json", [*weights, "--overwrite", "--json", self.path("w/model-1.safetensors")]),
                ("w/model-1.safetensors", "--unstack", [*weights, "--overwrite", "--unstack", self.path("w")]),
                ("run/models.csv", "--save", oof),
                ("data.npz", "--out", [*predict, data]), ("data.npz", "--out", [*predict, self.path("link.npz")]),
                ("run/run.safetensors", "--out", [*predict, self.path("run/run.safetensors")]),
                ("run/last/model-0001.safetensors", "--out", [*predict, self.path("run/last/model-0001.safetensors")]),
                ("i.safetensors", "--outputs", [*fuse, "--outputs", self.path("i.safetensors")]),
                ("net.pt2", "--export", [*fuse, "--export", net]),
                ("w/model-0.safetensors", "--json", [*fuse, "--json", self.path("w/model-0.safetensors")]),
                ("w/model-0.safetensors", "--unstack", [*fuse, "--unstack", self.path("w")]),
                ("run/report.json", "--csv", ["report", report, "--csv", report]),
                ("run/report.json", "--json", ["compare", report, report, "--json", report])):
            with self.subTest(option=option, name=name):
                self.keeps(name, f"[{option}] file: got ", *command)

    def test_other_places_are_free(self):
        self.train("-n", "2", "--epochs", "1", "--json", self.path("run.json"), "--export", self.path("made.pt2"), "--log", self.path("l.csv"))
        self.workbench("predict", self.path("run"), "--data", self.path("data.npz"), "--out", self.path("p.npz"))


class Unstacked(Files):
    def test_best_weights_of_all_models(self):
        self.train("--seeds", "11", "--epochs", "6", "--lr", "0.3", "--validation", "0.3", "--keep", "2", "--unstack", self.path("u"))
        self.assertEqual(sorted(os.listdir(self.path("u"))), [f"model-{i:02d}.safetensors" for i in range(11)])
        kept = os.listdir(self.path("run/best"))
        self.assertEqual(len(kept), 2)
        for name in kept:
            own = load_file(self.path(f"u/model-{int(name[6:10]):02d}.safetensors"))
            for key, tensor in load_file(self.path("run/best/" + name)).items():
                self.assertTrue(torch.equal(own[key], tensor), (name, key))
        self.assertTrue(any("11 checkpoints written to" in note for note in self.report()["notes"]))
        x = torch.tensor(self.x[:4])
        save_file({"input": x.expand(11, 4, 6).contiguous()}, self.path("x.safetensors"))
        self.workbench("fuse", self.path("net.pt2"), "--weights", self.path("u"), "--inputs", self.path("x.safetensors"), "--outputs",
                       self.path("y.safetensors"), "--no-store", "--quiet", "--budget", "0.1")
        own = load_file(self.path("u/model-10.safetensors"))
        expected = x @ own["weight"].T + own["bias"]
        self.assertLess((load_file(self.path("y.safetensors"))["output.0"][10] - expected).abs().max(), 1e-5)

    def test_last_weights_without_validation_and_of_a_resumed_run(self):
        self.train("-n", "2", "--epochs", "1")
        self.workbench("train", "--resume", self.path("run"), "--no-store", "--epochs", "2", "--unstack", self.path("u"))
        for i in range(2):
            last = load_file(self.path(f"run/last/model-{i:04d}.safetensors"))
            for key, tensor in load_file(self.path(f"u/model-{i}.safetensors")).items():
                self.assertTrue(torch.equal(last[key], tensor))
        self.refused("[--bench] run: got --unstack too", "-n", "2", "--bench", "--unstack", self.path("u"))


class Reports(Files):
    def test_against_another_run(self):
        common = ["--seeds", "5", "--lr", "0.05", "--validation", "0.3"]
        self.train(*common, "--epochs", "10")
        os.rename(self.path("run"), self.path("good"))
        self.train(*common, "--epochs", "1")
        report = ["report", self.path("run"), "--against"]
        said = self.workbench(*report, self.path("good"))
        self.assertIn("WORSE loss over 5 pairs of models", said.stdout)
        run = self.workbench(*report, self.path("good"), "--fail-on-regression", "1", expect=3)
        self.assertIn("[--against] loss: got ", run.stderr)
        self.workbench(*report, self.path("good"), "--fail-on-regression", "100000")
        self.workbench(*report, self.path("run"), "--fail-on-regression", "1")
        run = self.workbench("report", self.path("run"), "--fail-on-regression", "1", expect=2)
        self.assertIn("[--fail-on-regression] reference: got none", run.stderr)
        run = self.workbench(*report, self.path("good"), "--fail-on-regression", "1", "--json", "-", expect=3)
        self.assertEqual(json.loads(run.stdout)["kind"], "run")

    def test_by_in_files(self):
        self.train("--seeds", "2", "--grid", "lr=0.01,0.1", "--grid", "weight_decay=0,0.1", "--epochs", "1", "--validation", "0.3")
        self.workbench("report", self.path("run"), "--by", "lr", "--json", self.path("by.json"), "--html", self.path("by.html"))
        configs = self.json_of("by.json")["configs"]
        self.assertEqual(sorted(c["hyperparameters"]["lr"] for c in configs), [0.01, 0.1])
        for config in configs:
            self.assertEqual((list(config["hyperparameters"]), config["n"]), (["lr"], 4))
            best = [m["best"]["loss"] for m in self.report()["models"] if m["hyperparameters"]["lr"] == config["hyperparameters"]["lr"]]
            self.assertAlmostEqual(config["mean"], numpy.mean(best))
        self.fits_the_schema(self.json_of("by.json"))
        with open(self.path("by.html"), encoding="utf-8") as page:
            table = page.read().split("<h2>Configurations</h2>")[1].split("<h2>")[0]
        self.assertRegex(table, r"<td[^>]*>0\.1</td><td[^>]*>4</td>")
        self.assertNotIn("weight_decay", table)
        run = self.workbench("report", self.path("run"), "--by", "lrr", "--json", self.path("by.json"), expect=2)
        self.assertIn("[--by] key: got lrr, expected one of", run.stderr)

    def test_by_a_label(self):
        with open(self.path("models.csv"), "w", encoding="utf-8") as file:
            file.write("name,lr,my tag\na,0.1,one\nb,0.2,two\n")
        self.train("--models", self.path("models.csv"), "--epochs", "1", "--validation", "0.3")
        run = self.workbench("report", self.path("run"), "--by", "my tag", expect=2)
        self.assertIn("[--by] key: got my tag, a label of text, expected one of beta1", run.stderr)

    def test_by_a_column_of_numbers(self):
        with open(self.path("models.csv"), "w", encoding="utf-8") as file:
            file.write("name,lr,user\na,0.1,7\nb,0.2,7\nc,0.3,-1.5\n")
        self.train("--models", self.path("models.csv"), "--epochs", "1", "--validation", "0.3")
        outputs = [word for form in ("json", "html", "svg", "csv") for word in (f"--{form}", self.path("by." + form))]
        run = self.workbench("report", self.path("run"), "--by", "user", *outputs, "--against", self.path("run"))
        self.assertIn("SAME loss over 3 pairs", run.stdout)
        best = [m["best"]["loss"] for m in self.report()["models"]]
        expected = {7: numpy.mean(best[:2]), -1.5: best[2]}
        report = self.json_of("by.json")
        self.fits_the_schema(report)
        self.assertEqual({c["hyperparameters"]["user"]: c["n"] for c in report["configs"]}, {7: 2, -1.5: 1})
        for config in report["configs"]:
            self.assertEqual(list(config["hyperparameters"]), ["user"])
            self.assertAlmostEqual(config["mean"], expected[config["hyperparameters"]["user"]])
        for form in ("html", "svg"):
            with open(self.path("by." + form), encoding="utf-8") as file:
                self.assertIn("user=-1.5", file.read())
        with open(self.path("by.csv"), encoding="utf-8") as file:
            names = file.readline().strip().split(",")
        self.assertEqual((names.count("user"), len(set(names))), (1, len(names)))
        self.assertTrue(self.workbench("compare", self.path("by.json"), self.path("run")).stdout.startswith("SAME loss over 3 pairs"))
        self.assertIn("user=7", self.workbench("report", self.path("run"), "--by", "user").stdout)


if __name__ == "__main__":
    unittest.main()
