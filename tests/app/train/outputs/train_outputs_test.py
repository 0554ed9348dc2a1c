"""A network that computes its own loss: numbers of rows and of whole batches, as PyTorch has them of a checkpoint."""
import copy
import os
import sys
import unittest

import numpy
import torch
from safetensors.torch import load_file
from torch.nn import functional

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import digits
from train_command import Train


class OwnLoss(torch.nn.Module):
    """Logits, the loss of each row, a number of the batch, the mean loss."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(6, 3)

    def forward(self, input, y):
        logits = self.a(input)
        loss = functional.cross_entropy(logits, y, reduction="none")
        return logits, loss, logits.square().mean(), loss.mean()


class WithOwnLoss(Train):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        self.x, self.y = random.normal(0, 1, (1500, 6)).astype("float32"), random.integers(0, 3, 1500)
        self.x[0] *= 200  # what would fill a batch up
        self.x[1400:] *= 5
        numpy.savez(self.path("data.npz"), input=self.x[100:220], y=self.y[100:220])
        self.export({0: torch.export.Dim("batch", min=1)})

    def export(self, sizes):
        example = (torch.randn(8, 6), torch.zeros(8, dtype=torch.long))
        torch.export.save(torch.export.export(OwnLoss().eval(), example, dynamic_shapes=(sizes, sizes) if sizes else None),
                          self.path("net.pt2"))

    def exact(self, rows, model, kind="last"):
        net = OwnLoss()
        net.load_state_dict(load_file(self.path(f"run/{kind}/model-{model:04d}.safetensors")))
        with torch.no_grad():
            return net.double()(torch.tensor(self.x[rows]).double(), torch.tensor(self.y[rows]))

    def numbers_are_pytorchs(self, rows_of, part="last"):
        for i, model in enumerate(self.report()["models"]):
            _, _, number, loss = self.exact(rows_of(i), i, "best" if part == "test" and model["best"] else "last")
            self.assertAlmostEqual(model[part]["loss"] / loss.item(), 1, delta=1e-5, msg=f"model {i}")
            self.assertAlmostEqual(model[part]["min:output.2"] / number.item(), 1, delta=1e-5, msg=f"model {i}")


class OfBatches(WithOwnLoss):
    def test_are_means_over_rows_that_are_there(self):
        numpy.savez(self.path("more.npz"), input=self.x, y=self.y)
        numpy.savez(self.path("other.npz"), input=self.x[:1025], y=self.y[:1025])
        for loss in ("output.3", "output.1"):
            self.train("-n", "2", "--loss", loss, "--epochs", "1", "--validation", self.path("more.npz"), "--test",
                       self.path("other.npz"), "--metric", "min:output.2", "--overwrite")
            self.numbers_are_pytorchs(lambda i: slice(0, 1500))
            self.numbers_are_pytorchs(lambda i: slice(0, 1025), "test")

    def test_of_folds_of_unequal_size(self):
        for least, sizes in ((1, (10, 57, 33)), (2, (34, 33, 33)), (2, (1030, 66, 66))):
            self.export({0: torch.export.Dim("batch", min=least)})  # at least two rows: no fold may leave one over
            fold = numpy.repeat(numpy.arange(3), sizes)
            rows = len(fold)
            numpy.savez(self.path("data.npz"), input=self.x[:rows], y=self.y[:rows], f=fold)
            self.train("--fold", "f", "--loss", "output.3", "--epochs", "2", "--metric", "min:output.2", "--overwrite")
            self.numbers_are_pytorchs(lambda i: numpy.flatnonzero(fold == i))

    def test_of_batches_of_one_size(self):
        self.export(None)
        for rows, said in ((16, ""), (20, "[--loss] output.3: got one number a batch, expected one a row where 20 rows to "
                                          "evaluate do not fill batches that the network takes; try an export with a "
                                          "dynamic batch dimension")):
            numpy.savez(self.path("more.npz"), input=self.x[:rows], y=self.y[:rows])
            common = ["-n", "2", "--loss", "output.3", "--epochs", "1", "--validation", self.path("more.npz"), "--overwrite",
                      "--metric", "min:output.2"]
            if said:
                self.refused(said, *common)
                self.refused(said.replace("[--loss] output.3", "[--metric] min:output.2"),
                             *(["output.1" if word == "output.3" else word for word in common]))
            else:
                self.train(*common)
                self.numbers_are_pytorchs(lambda i: slice(0, 16))

    def test_are_not_weighed_by_row(self):
        numpy.savez(self.path("data.npz"), input=self.x[:60], y=self.y[:60], w=numpy.ones(60, "float32"))
        self.refused("[--metric] min:output.2: got one number a batch, expected one a row to weigh it by --sample-weight",
                     "-n", "2", "--loss", "output.1", "--validation", "0.2", "--metric", "min:output.2", "--sample-weight", "w")


class Answers(WithOwnLoss):
    def predicted(self, *options, expect=0):
        run = self.workbench("predict", self.path("run"), "--data", self.path("data.npz"), "--out", self.path("p.npz"), *options,
                             expect=expect)
        return run.stderr if expect else numpy.load(self.path("p.npz"))["prediction"]

    def test_are_the_output_that_was_said(self):
        self.train("-n", "2", "--loss", "output.1", "--output", "0", "--epochs", "1", "--validation", "0.25")
        wanted = sum(self.exact(slice(100, 220), i, "best")[0] for i in range(2)) / 2
        numpy.testing.assert_allclose(self.predicted(), wanted, rtol=1e-4, atol=1e-5)
        numpy.savez(self.path("data.npz"), input=self.x[100:220])  # the answer is not computed from y
        numpy.testing.assert_allclose(self.predicted(), wanted, rtol=1e-4, atol=1e-5)
        numpy.savez(self.path("data.npz"), y=self.y[100:220])
        self.assertIn("data.npz] columns: got no input, expected all columns of the training data by name: input; try to add it\n",
                      self.predicted(expect=2))

    def test_that_need_the_target_are_refused_without_it(self):
        self.train("-n", "2", "--loss", "output.1", "--epochs", "1", "--validation", "0.25")
        wanted = sum(self.exact(slice(100, 220), i, "best")[1] for i in range(2)) / 2
        numpy.testing.assert_allclose(self.predicted(), wanted, rtol=1e-4, atol=1e-5)
        numpy.savez(self.path("data.npz"), input=self.x[:20])
        self.assertIn("data.npz] columns: got no y, expected all columns of the training data by name: input, y; try to add it\n",
                      self.predicted(expect=2))

    def test_are_exported_without_the_target(self):
        files = [self.path("wide.pt2"), self.path("wide.ts")]
        self.train("-n", "2", "--loss", "output.1", "--output", "0", "--epochs", "1", "--validation", "0.25", "--normalize",
                   "input=0.5,2", "--export", files[0], "--export", files[1])
        rows = torch.tensor(self.x[:9])
        exact = []
        for model in range(2):
            net = OwnLoss()
            net.load_state_dict(load_file(self.path(f"run/best/model-{model:04d}.safetensors")))
            with torch.no_grad():
                exact.append(net.double()((rows.double() - 0.5) / 2, torch.zeros(9, dtype=torch.long)))
        for module in (torch.export.load(files[0]).module(), torch.jit.load(files[1])):
            with torch.no_grad():
                got = module(rows.expand(2, 9, 6).contiguous())
            self.assertEqual(len(got), 2)  # the scores, and the number of the batch that is computed from them alone
            for mine, which in zip(got, (0, 2)):
                torch.testing.assert_close(mine.double(), torch.stack([e[which] for e in exact]), rtol=1e-4, atol=1e-4)
        self.train("-n", "2", "--loss", "output.1", "--epochs", "1", "--overwrite", "--export", files[0])
        with torch.no_grad():  # all outputs where the answer is the loss
            got = torch.export.load(files[0]).module()(rows.expand(2, 9, 6).contiguous(), torch.zeros(2, 9, dtype=torch.long))
        self.assertEqual(len(got), 4)

    def test_are_not_numbers_of_a_batch(self):
        self.train("-n", "2", "--loss", "output.3", "--epochs", "1", "--validation", "0.25")
        said = self.predicted(expect=2)
        self.assertIn("[predict] output 3: got numbers of a whole batch, expected some for each row; try fuse with --weights", said)
        self.assertEqual(said.count("\n"), 1)

    def test_out_of_fold(self):
        self.train("--folds", "3", "--loss", "output.3", "--epochs", "1")
        self.assertFalse(os.path.exists(self.path("run/oof.npz")))
        self.assertTrue(any(note.startswith("no oof.npz: output 3 is of a whole batch") for note in self.report()["notes"]))
        self.train("--folds", "3", "--loss", "output.3", "--output", "0", "--epochs", "1", "--overwrite")
        oof = numpy.load(self.path("run/oof.npz"))
        for fold in range(3):
            rows = oof["fold"] == fold
            at = 100 + numpy.flatnonzero(rows)
            numpy.testing.assert_allclose(oof["prediction"][0][rows], self.exact(at, fold, "best")[0], rtol=1e-4, atol=1e-5)

    def test_beyond_the_outputs_are_refused(self):
        for option in ("--metric", "--monitor"):
            self.refused(f"[{option}] output: got 9, expected one of forward's 4, from 0; try 0", "-n", "2", "--loss", "output.1",
                         "--validation", "0.2", option, "min:output.9")
        self.refused("[--loss] output: got 9, expected one of forward's 4", "-n", "2", "--loss", "output.9")
        self.refused("[--output] output: got 9, expected one of forward's 4", "-n", "2", "--loss", "output.1", "--output", "9")


class Two(torch.nn.Module):
    """Scores of classes, and a number that no loss of the scores looks at."""

    def __init__(self):
        super().__init__()
        self.body, self.scores, self.number = torch.nn.Linear(6, 5), torch.nn.Linear(5, 3), torch.nn.Linear(5, 1)

    def forward(self, input):
        h = torch.tanh(self.body(input))
        return self.scores(h), self.number(h)


class UnusedHead(Train):
    OPTIMIZERS = {
        "adamw": (["--weight-decay", "0.3"], lambda p, lr: torch.optim.AdamW(p, lr, weight_decay=0.3)),
        "adam": (["--weight-decay", "0.2"], lambda p, lr: torch.optim.Adam(p, lr, weight_decay=0.2)),
        "sgd": (["--weight-decay", "0.1", "--momentum", "0.9"], lambda p, lr: torch.optim.SGD(p, lr, 0.9, weight_decay=0.1)),
        "rmsprop": (["--weight-decay", "0.1", "--momentum", "0.5"],
                    lambda p, lr: torch.optim.RMSprop(p, lr, weight_decay=0.1, momentum=0.5)),
    }

    def test_is_left_alone_as_by_pytorch(self):
        random = numpy.random.default_rng(3)
        x, y = random.normal(0, 1, (11, 6)).astype("float32"), random.integers(0, 3, 11)
        numpy.savez(self.path("data.npz"), input=x, y=y)
        net = Two()
        torch.export.save(torch.export.export(net.eval(), (torch.randn(4, 6),), dynamic_shapes=({0: torch.export.Dim("batch")},)),
                          self.path("net.pt2"))
        for name, (options, made) in self.OPTIMIZERS.items():
            self.train("--lr", "0.01,0.03", "--optimizer", name, *options, "--init", "file", "--output", "0", "--batch", "11",
                       "--steps", "7", "--order", "sequential", "--check", "1", "--overwrite")
            for model, lr in enumerate((0.01, 0.03)):
                own = copy.deepcopy(net)
                optimizer = made(own.parameters(), lr)
                for _ in range(7):
                    optimizer.zero_grad()
                    functional.cross_entropy(own(torch.tensor(x))[0], torch.tensor(y)).backward()
                    optimizer.step()
                got, wanted = load_file(self.path(f"run/last/model-{model:04d}.safetensors")), own.state_dict()
                for key, tensor in wanted.items():
                    with self.subTest(name, model=model, tensor=key):
                        if key.startswith("number."):
                            self.assertTrue(got[key].equal(net.state_dict()[key]))
                        torch.testing.assert_close(got[key], tensor, rtol=1e-4, atol=1e-5)


class OtherTypes(torch.nn.Module):
    """A part in half precision, which is not trained, before a layer in float32; a buffer in float64."""

    def __init__(self, first):
        super().__init__()
        base = torch.nn.Linear(6, 16).half()
        if first:
            self.base = base
        self.head = torch.nn.Linear(16, 3)
        if not first:
            self.base = base
        self.register_buffer("third", torch.tensor(1 / 3, dtype=torch.float64))

    def forward(self, input):
        return self.head(torch.tanh(self.base(input.half())).float() * self.third.float())


class OfFrozenParts(Train):
    def test_are_predicted(self):
        random = numpy.random.default_rng(0)
        x = random.normal(0, 1, (90, 6)).astype("float32")
        numpy.savez(self.path("data.npz"), input=x, y=random.integers(0, 3, 90))
        for first in (True, False):
            net = OtherTypes(first)
            digits.export(net, self.path("net.pt2"), torch.randn(5, 6))
            self.train("--lr", "0.1,0.02", "--freeze", "base.*", "--epochs", "2", "--overwrite")
            self.workbench("predict", self.path("run"), "--data", self.path("data.npz"), "--out", self.path("p.npz"), "--reduce", "none")
            predicted = numpy.load(self.path("p.npz"))["prediction"]
            for m in range(2):
                net.load_state_dict(load_file(self.path(f"run/last/model-{m:04d}.safetensors")))
                with torch.no_grad():
                    wanted = net(torch.tensor(x)).softmax(1).numpy()
                self.assertLess(abs(predicted[m] - wanted).max(), 1e-3)  # half precision


if __name__ == "__main__":
    unittest.main()
