"""What `workbench train` makes of a network: its outputs, its counters, its images, its rivals."""
import json
import os
import sys
import typing
import unittest

import numpy
import torch
from safetensors.torch import load_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digits
from train_command import Train


class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = torch.nn.Linear(4, 6, bias=False), torch.nn.BatchNorm1d(6, momentum=None), torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.b(torch.tanh(self.norm(self.a(x))))


class Statistics(Train):
    def test_of_a_batch_norm_without_momentum(self):
        model, x, y = Counted(), torch.randn(30, 4), torch.randint(0, 3, (30,))
        numpy.savez(self.path("d.npz"), x=x.numpy(), y=y.numpy())
        digits.export(model, self.path("n.pt2"), x[:3])
        self.train("-n", "3", "--init", "file", "--order", "sequential", "--batch", "8", "--epochs", "2", "--lr", "0.1",
                   "--optimizer", "sgd", net="n.pt2", data="d.npz")
        model.double().train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for begin in [*range(0, 30, 8)] * 2:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[begin:begin + 8].double()), y[begin:begin + 8]).backward()
            optimizer.step()
        got = load_file(self.path("run/last/model-0002.safetensors"))
        for name, tensor in model.state_dict().items():
            self.assertLess((got[name] - tensor).abs().max(), 2e-5, name)


class Whitened(torch.nn.Module):
    """Cannot be run with zeros as weights."""

    def __init__(self):
        super().__init__()
        self.a, self.w = torch.nn.Linear(4, 3), torch.nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        return self.a(x) @ torch.linalg.cholesky(self.w @ self.w.T + 0.01 * self.w.square().sum() * torch.eye(3))


class NotOnZeros(Train):
    def test_a_network_that_needs_its_own_weights(self):
        torch.manual_seed(0)
        model, x, y = Whitened(), torch.randn(30, 4), torch.randint(0, 3, (30,))
        numpy.savez(self.path("d.npz"), x=x.numpy(), y=y.numpy())
        digits.export(model, self.path("n.pt2"), x[:3])
        true = torch.nn.functional.cross_entropy(model(x), y).item()
        for form in ((), ("--as-exported",), ("--eval-model", self.path("n.pt2"))):
            self.train("-n", "2", "--init", "file", "--lr", "0", "--epochs", "1", "--validation", self.path("d.npz"), "--overwrite", *form,
                       net="n.pt2", data="d.npz")
            for model_report in self.report()["models"]:
                self.assertAlmostEqual(model_report["best"]["loss"], true, delta=1e-6, msg=form)


class OneOf(torch.nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.a, self.norm, self.b = torch.nn.Linear(4, 5), norm, torch.nn.Linear(5, 3)

    def forward(self, x):
        return self.b(torch.tanh(self.norm(self.a(x))))


class Spectral(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 6))
        self.b = torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


class Heads(torch.nn.Module):
    """`training`, `evaluation`: what forward gives of its two heads, and of the first one's loss."""

    def __init__(self, training, evaluation):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
        self.forms = evaluation, training

    def forward(self, x, y):
        scores = self.a(x)
        return self.forms[self.training](scores, self.b(x), torch.nn.functional.cross_entropy(scores, y, reduction="none"))


class Noisy(torch.nn.Module):
    def __init__(self, always):
        super().__init__()
        self.a, self.always = torch.nn.Linear(4, 3), always

    def forward(self, x):
        return self.a(x + 0.1 * torch.randn_like(x) if self.training or self.always else x)


class EvaluationForm(Train):
    def with_outputs(self, training, evaluation):
        """The files of both forms, and data."""
        self.model = Heads(training, evaluation)
        self.x, self.y = torch.randn(30, 4), torch.randint(0, 3, (30,))
        numpy.savez(self.path("d.npz"), x=self.x.numpy(), y=self.y.numpy())
        sizes = {0: torch.export.Dim("batch", min=1)}
        for name, train in (("n.pt2", True), ("eval.pt2", False)):
            torch.export.save(torch.export.export(self.model.train(train), (self.x[:3], self.y[:3]), dynamic_shapes=(sizes, sizes)),
                              self.path(name))
        return ["-n", "2", "--init", "file", "--order", "sequential", "--batch", "8", "--epochs", "2", "--lr", "0.1", "--optimizer", "sgd",
                "--validation", self.path("d.npz"), "--overwrite", "--dtype", "float64", "--eval-model", self.path("eval.pt2"),
                "--column", "x=x", "--column", "y=y"]

    def learns_of_the_first_head(self, common, *options):
        self.train(*common, *options, net="n.pt2", data="d.npz")
        x, model = self.x.double(), self.model.double()
        optimizer = torch.optim.SGD(model.a.parameters(), lr=0.1)
        for look in self.report()["history"]:
            for begin in range(0, 30, 8):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model.a(x[begin:begin + 8]), self.y[begin:begin + 8]).backward()
                optimizer.step()
            with torch.no_grad():
                self.assertAlmostEqual(look["loss"][1], torch.nn.functional.cross_entropy(model.a(x), self.y).item(), delta=1e-9)
        self.workbench("predict", self.path("run"), "--data", self.path("d.npz"), "--out", self.path("p.npz"), "--apply", "none")
        numpy.testing.assert_allclose(numpy.load(self.path("p.npz"))["prediction"], model.a(x).detach(), rtol=1e-6)

    def test_of_other_outputs(self):
        named = ["--target", "y", "--loss", "cross_entropy"]
        common = self.with_outputs(lambda a, b, c: {"aux": b, "out": a}, lambda a, b, c: {"out": a, "probs": a.softmax(1)})
        self.learns_of_the_first_head(common, *named, "--output", "out")
        self.refused("[--eval-model] output 1: got probs of out, probs, expected out as in training; try --output with a name that both "
                     "have", *common, *named, "--output", "1", net="n.pt2", data="d.npz")
        self.refused("[--eval-model] output 0: got out of out, probs, expected aux as in training; try --output with a name that both have",
                     *common, *named, net="n.pt2", data="d.npz")
        self.refused("[--output] output: got aux, expected the number of one of forward's, from 0, or its name: out, probs; try 0", *common,
                     *named, "--output", "aux", net="n.pt2", data="d.npz")
        common = self.with_outputs(lambda a, b, c: {"out": a, "loss": c}, lambda a, b, c: {"out": a, "sure": a.amax(1), "loss": c})
        self.learns_of_the_first_head(common, "--loss", "output.loss", "--output", "out")
        common = self.with_outputs(lambda a, b, c: (a, c), lambda a, b, c: (a, a.amax(1), c))
        self.refused("[--eval-model] outputs: got 3, expected 2 as in training, or names by which one is found; try exports of a forward "
                     "that gives a dict", *common, "--loss", "output.1", "--output", "0", net="n.pt2", data="d.npz")
        common = self.with_outputs(lambda a, b, c: (a, b), lambda a, b, c: a)
        self.learns_of_the_first_head(common, *named)
        self.assertIn("the loss is of the first of forward's 2 outputs in training, and of the first of 1 in evaluations",
                      self.report()["notes"])

    def test_of_a_forward_that_draws_in_evaluations_is_refused(self):
        numpy.savez(self.path("d.npz"), x=numpy.random.default_rng(0).random((40, 4), dtype="float32"), y=numpy.arange(40) % 3)
        common = ["-n", "2", "--validation", "0.25", "--init", "file", "--epochs", "1", "--overwrite"]
        for train in (True, False):
            digits.export(Noisy(always=True), self.path(f"{train}.pt2"), torch.randn(3, 4), train=train)
            digits.export(Noisy(always=False), self.path(f"guarded-{train}.pt2"), torch.randn(3, 4), train=train)
        self.refused("[train] evaluation form: got aten::randn_like, expected no random operators; try a forward that draws only "
                     "while self.training", *common, "--eval-model", self.path("False.pt2"), net="True.pt2", data="d.npz")
        self.train(*common, "--eval-model", self.path("guarded-False.pt2"), net="guarded-True.pt2", data="d.npz")

    def test_of_a_train_mode_export_that_writes_buffers_is_asked_for(self):
        """The power iteration of spectral_norm is in the file, which says nowhere that evaluations leave it out."""
        model, x, y = Spectral(), torch.randn(30, 4), torch.randint(0, 3, (30,))
        numpy.savez(self.path("d.npz"), x=x.numpy(), y=y.numpy())
        digits.export(model, self.path("n.pt2"), x[:3], train=True)
        digits.export(model, self.path("eval.pt2"), x[:3])
        common = ["-n", "2", "--init", "file", "--order", "sequential", "--batch", "8", "--epochs", "2", "--lr", "0.1", "--optimizer", "sgd",
                  "--validation", self.path("d.npz"), "--overwrite", "--dtype", "float64"]
        self.refused("[n.pt2] evaluation: got a form that writes buffer a.parametrizations.weight.0._u, as a train-mode export's, expected "
                     "one that writes none; try --eval-model FILE, an export of model.eval(), or --as-exported", *common, net="n.pt2",
                     data="d.npz")
        self.train(*common, "--eval-model", self.path("eval.pt2"), net="n.pt2", data="d.npz")
        model.double().train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(2):
            for begin in range(0, 30, 8):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x[begin:begin + 8].double()), y[begin:begin + 8]).backward()
                optimizer.step()
            with torch.no_grad():
                loss = torch.nn.functional.cross_entropy(model.eval()(x.double()), y).item()
            model.train()
            self.assertAlmostEqual(self.report()["history"][epoch]["loss"][1], loss, delta=1e-9)


class Counters(Train):
    def test_count_the_batches_as_in_training(self):
        """An export for evaluation does not show that a batch norm counts; an instance norm never does."""
        x, y = torch.randn(30, 4), torch.randint(0, 3, (30,))
        numpy.savez(self.path("d.npz"), x=x.numpy(), y=y.numpy())
        for norm, scripted in ((torch.nn.BatchNorm1d(5), False), (torch.nn.BatchNorm1d(5, momentum=0.3), True),
                               (torch.nn.BatchNorm1d(5, momentum=None), True)):
            model = OneOf(norm)
            if scripted:
                torch.jit.script(model.eval()).save(self.path("n.pt"))
            else:
                digits.export(model.eval(), self.path("n.pt"), x[:3])
            self.train("-n", "2", "--init", "file", "--order", "sequential", "--batch", "8", "--epochs", "2", "--lr", "0.1",
                       "--optimizer", "sgd", "--overwrite", net="n.pt", data="d.npz")
            model.double().train()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for begin in [*range(0, 30, 8)] * 2:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x[begin:begin + 8].double()), y[begin:begin + 8]).backward()
                optimizer.step()
            got = load_file(self.path("run/last/model-0001.safetensors"))
            self.assertEqual(got["norm.num_batches_tracked"].item(), 8)
            for name, tensor in model.state_dict().items():
                self.assertLess((got[name] - tensor).abs().max(), 2e-5, (scripted, name))


class Frozen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 6), torch.nn.Linear(6, 3)
        self.n1, self.n2 = torch.nn.BatchNorm1d(6), torch.nn.BatchNorm1d(6)
        self.d1, self.d2, self.d3 = torch.nn.Dropout(0.5), torch.nn.Dropout(0.5), torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.b(self.d3(self.d2(self.n2(self.d1(torch.relu(self.n1(self.a(x))))))))


class Switched(Train):
    def test_counts_what_differs(self):
        """What was frozen in a network that is in training is off in both forms."""
        x = torch.randn(30, 4)
        numpy.savez(self.path("d.npz"), x=x.numpy(), y=torch.randint(0, 3, (30,)).numpy())
        for frozen, (dropout, norm) in (("", (3, 2)), ("n2 d2", (2, 1)), ("d1 d2 d3", (0, 2))):
            for training in (True, False):
                model = Frozen().train(training)
                for part in frozen.split():
                    getattr(model, part).eval()
                rows = torch.export.Dim("rows", min=1)
                torch.export.save(torch.export.export(model, (x[:3],), dynamic_shapes=({0: rows},)), self.path("n.pt2"))
                torch.jit.script(model).save(self.path("n.ts"))
                counts = (dropout, norm) if training else (3, 2)
                for net in ("n.pt2", "n.ts"):
                    line = self.train("-n", "2", "--epochs", "1", "--overwrite", net=net, data="d.npz").stdout.splitlines()[0]
                    self.assertEqual(self.report()["switched"], {"dropout": counts[0], "batch_norm": counts[1]}, (net, frozen, line))
                    self.assertIn(" off for evaluation" if training else " on for training", line)
                    if training and dropout == 0:
                        self.refused(f"[dropout] network: got {net}, which has no dropout in training", "-n", "2", "--overwrite",
                                     "--set", "dropout=0.1", net=net, data="d.npz")


class Bags(Train):
    def test_of_embeddings_as_torch(self):
        """The check of the first steps included: what is recorded without gradients has none in PyTorch."""
        x, y = torch.randint(0, 10, (30, 5)), torch.randint(0, 3, (30,))
        numpy.savez(self.path("d.npz"), input=x.numpy(), y=y.numpy())
        for mode, equal in (("sum", False), ("mean", False), ("max", False), ("max", True)):
            model = torch.nn.EmbeddingBag(10, 3, mode=mode)
            if equal:  # of the largest rows that are equal, PyTorch gives the gradient to the first
                torch.nn.init.zeros_(model.weight)
            digits.export(model, self.path("n.pt2"), x[:3])
            self.train("-n", "2", "--init", "file", "--order", "sequential", "--batch", "10", "--epochs", "2", "--lr", "0.1",
                       "--optimizer", "sgd", "--overwrite", net="n.pt2", data="d.npz")
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for begin in [0, 10, 20] * 2:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x[begin:begin + 10]), y[begin:begin + 10]).backward()
                optimizer.step()
            got = load_file(self.path("run/last/model-0001.safetensors"))["weight"]
            self.assertLess((got - model.weight).abs().max(), 2e-5, (mode, equal))


class Shuffling(torch.nn.Module):
    def forward(self, x):
        return x[:, torch.randperm(3)]


class Untrainable(Train):
    def test_is_refused_before_anything_is_written(self):
        net = torch.nn.Sequential(torch.nn.Linear(4, 3), Shuffling())
        numpy.savez(self.path("d.npz"), input=torch.randn(30, 4).numpy(), y=torch.randint(0, 3, (30,)).numpy())
        digits.export(net, self.path("n.pt2"), torch.randn(3, 4))
        digits.export(net[0], self.path("good.pt2"), torch.randn(3, 4))
        self.refused("[train] random operator: got aten::randperm", "-n", "2", net="n.pt2", data="d.npz")
        self.assertFalse(os.path.exists(self.path("run")))
        self.train("-n", "2", "--epochs", "1", net="good.pt2", data="d.npz")
        self.refused("[train] random operator: got aten::randperm", "-n", "2", "--overwrite", net="n.pt2", data="d.npz")
        self.workbench("train", "--resume", self.path("run"), "--no-store", "--epochs", "2")


class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 3), torch.nn.Linear(4, 2)

    def forward(self, x):
        return {"first": self.a(x), "aux": {"second": self.b(x), "size": self.b(x).square().mean()}}


class Named(typing.NamedTuple):
    first: torch.Tensor
    aux: typing.Dict[str, torch.Tensor]


class ScriptedHeads(TwoHeads):
    def forward(self, x):
        return Named(self.a(x), {"second": self.b(x), "size": self.b(x).square().mean()})


class Filled(TwoHeads):
    def forward(self, x):
        out: typing.Dict[str, torch.Tensor] = {}
        out["first"] = self.a(x)
        return out


class Outputs(Train):
    def same_by_name_and_number(self, common):
        ways = []
        for output, metric in (("1", "min:output.2"), ("aux.second", "min:output.aux.size")):
            self.train("-n", "2", "--output", output, "--metric", metric, "--validation", "0.25", "--epochs", "2", "--overwrite",
                       "--lr", "0.1", **common)
            best = self.report()["models"][1]["best"]
            ways.append((best["loss"], best[metric]))
        for one, other in zip(*ways):  # tuned apart: equal bits are promised with --plan alone
            self.assertAlmostEqual(one, other, delta=1e-6)

    def test_by_name_of_a_script(self):
        numpy.savez(self.path("d.npz"), x=numpy.random.default_rng(0).random((40, 4), dtype="float32"), y=numpy.arange(40) % 2)
        torch.jit.script(ScriptedHeads().eval()).save(self.path("n.pt"))
        common = dict(net="n.pt", data="d.npz")
        self.same_by_name_and_number(common)
        self.refused("[--output] output: got third, expected the number of one of forward's, from 0, or its name: first, "
                     "aux.second, aux.size; try 0", "-n", "2", "--output", "third", "--overwrite", **common)
        torch.jit.script(Filled().eval()).save(self.path("n.pt"))  # what it holds shows when it runs
        self.refused("[--output] output: got first, expected the number of one of forward's, from 0; try 0", "-n", "2",
                     "--output", "first", "--overwrite", **common)

    def test_by_name(self):
        numpy.savez(self.path("d.npz"), x=numpy.random.default_rng(0).random((40, 4), dtype="float32"), y=numpy.arange(40) % 2)
        digits.export(TwoHeads(), self.path("n.pt2"), torch.randn(3, 4))
        common = dict(net="n.pt2", data="d.npz")
        self.same_by_name_and_number(common)
        self.assertEqual(os.path.exists(self.path("run/best/model-0001.safetensors")), True)
        self.workbench("predict", self.path("run"), "--data", self.path("d.npz"), "--out", self.path("p.npz"))
        self.assertEqual(numpy.load(self.path("p.npz"))["prediction"].shape, (40, 2))
        self.refused("[--output] output: got third, expected the number of one of forward's, from 0, or its name: first, "
                     "aux.second, aux.size; try 0", "-n", "2", "--output", "third", "--overwrite", **common)


class Augmented(Train):
    def test_in_training_alone(self):
        """Own draws of each model of the same rows; evaluations see what the file has; the same bits on resume."""
        digits.write(self.folder, 200)
        common = ["--set", "seed.init=1", "--set", "dropout=0", "--same-order", "--epochs", "2", "--lr", "0", "--validation", "0.2"]
        self.train("-n", "2", *common)
        plain = self.report()["models"]
        self.train("-n", "2", *common, "--augment", "flip,crop:2,cutout:3", "--normalize", "x=0.3,0.2", "--overwrite")
        self.assertGreater(abs(self.report()["models"][0]["best"]["loss"] - plain[0]["best"]["loss"]), 1e-4)
        self.train("-n", "2", *common, "--augment", "flip,crop:2,cutout:3", "--overwrite")
        augmented, report = self.report()["models"], self.report()
        for one, other in zip(augmented, plain):  # tuned apart: equal bits are promised with --plan alone
            self.assertAlmostEqual(one["best"]["loss"], other["best"]["loss"], delta=1e-6)
        for row in report["history"]:
            self.assertEqual(len({round(loss, 9) for loss in row["train_loss"]}), 2)
        for text, message in (("spin", "augmentation: got spin, expected flip, crop:PAD or cutout:SIZE; try flip,crop:4"),
                              ("crop:0", "augmentation: got crop:0, expected flip, crop:PAD or cutout:SIZE; try flip,crop:4")):
            self.refused("[--augment] " + message, "-n", "2", "--augment", text, "--overwrite")

    def test_of_images_alone(self):
        numpy.savez(self.path("d.npz"), x=numpy.random.default_rng(0).random((40, 4), dtype="float32"), y=numpy.arange(40) % 2)
        digits.export(torch.nn.Linear(4, 2), self.path("n.pt2"), torch.randn(3, 4))
        self.refused("[--augment] inputs: got none of [C, H, W], expected images; try what other rows need in the network's "
                     "train form", "-n", "2", "--augment", "flip", "--column", "input=x",
                     net="n.pt2", data="d.npz")


class Bench(Train):
    def test_beside_the_ways_people_have(self):
        digits.write(self.folder, 200)
        for how in (["--lr", "1e-3,1e-2,1e-1"], ["--optimizer", "sgd", "--momentum", "0.9"], ["--folds", "3"]):
            n = [] if how[0] == "--folds" else ["-n", "3"]
            self.train(*n, *how, "--bench", "--budget", "0.2", "--json", self.path("b.json"), "--threads", "2", "--set", "dropout=0")
            with open(self.path("b.json"), encoding="utf-8") as file:
                report = json.load(file)
            self.assertEqual([t["name"] for t in report["results"]], ["loop", "threads", "vmap", "wide"], report["notes"])
            said = any("vmap steps with the first model's hyperparameters" in note for note in report["notes"])
            self.assertEqual(said, how[0] == "--lr")


if __name__ == "__main__":
    unittest.main()
