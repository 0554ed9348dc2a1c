"""Rows and epochs of each model's own in `nw.train`, against separate modules in PyTorch."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import unittest  # noqa: E402

import numpy  # noqa: E402
import torch  # noqa: E402
from separate_runs import Net, Runs, rows, start  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import nwide as nw  # noqa: E402
from nwide.training import tensor_files  # noqa: E402

PLAIN = {"batch": 16, "order": "sequential", "dtype": "f64", "check": 0, "lr": 0.01}
COUNTS = (53, 20, 7, 33, 1)


class Rowwise(nn.Sequential):
    """Without a batch norm: each row by itself."""

    def __init__(self):
        super().__init__(nn.Linear(5, 7), nn.LayerNorm(7), nn.Tanh(), nn.Linear(7, 3))


def made(seed, kind=Rowwise):
    torch.manual_seed(seed)
    return kind().double()


def alone(model, x, y, epochs, batch=16, loss=F.cross_entropy, drop_last=False):
    step = torch.optim.AdamW(model.train().parameters(), lr=0.01, weight_decay=0.01)
    for _ in range(epochs):
        for begin in range(0, len(y) - (batch - 1 if drop_last else 0), batch):
            step.zero_grad()
            loss(model(x[begin:begin + batch]), y[begin:begin + batch]).backward()
            step.step()
    return model.eval()


class OwnRows(Runs):
    def same(self, model, other):
        for name, value in model.state_dict().items():
            self.assertLess((value.double() - other.state_dict()[name].double()).abs().max().item(), 1e-9, name)

    def last(self, run, model, metric="loss"):
        return run.curves[run.curves["model"] == model][metric].iloc[-1]

    def test_pairs_of_different_lengths(self):
        pairs = [rows(count, seed) for seed, count in enumerate(COUNTS)]
        held = [rows(count, seed + 10) for seed, count in enumerate((5, 40, 1, 17, 9))]
        run = self.train(Rowwise, data=pairs, epochs=3, **PLAIN)
        self.assertEqual(list(run.table["step"]), [12, 6, 3, 9, 3])
        self.assertEqual(list(run.table["status"]), ["trained"] * 5)
        for i, (x, y) in enumerate(pairs):
            self.same(run.models[i], alone(made(i), x, y, 3))
        run = self.train(Rowwise, data=pairs, validation=held, epochs=3, metrics=["accuracy"], save="held", **PLAIN)
        for i, ((x, y), (xv, yv)) in enumerate(zip(pairs, held)):
            output = alone(made(i), x, y, 3)(xv).detach()
            self.assertAlmostEqual(self.last(run, i), F.cross_entropy(output, yv).item(), delta=1e-9)
            self.assertAlmostEqual(self.last(run, i, "accuracy"), (output.argmax(1) == yv).double().mean().item(), delta=1e-9)
        self.assertEqual((run.report["data"]["rows"], run.report["data"]["validation_rows"]), (sum(COUNTS), 72))
        self.refused("[--resume] epochs: got another length, expected the one that it began with, as models ended at different steps; try a "
                     "new run that starts from held/last", lambda: run.resume(epochs=4, quiet=True))

    def test_shares_held_back(self):
        pairs = [rows(count, seed) for seed, count in enumerate((53, 20, 33))]
        run = self.train(Rowwise, data=pairs, validation=0.25, test=0.2, epochs=2, **PLAIN)
        x, y = (torch.cat(parts) for parts in zip(*pairs))
        whose = tensor_files.load(self.path("run/python/rows.safetensors"))
        begin = 0
        for i, (own, _) in enumerate(pairs):
            of = [whose["row"][(whose["model"] == i) & (whose["use"] == use)] for use in range(3)]
            self.assertEqual(sorted(torch.cat(of).tolist()), list(range(begin, begin + len(own))))
            self.assertEqual([len(of[1]), len(of[2])], [round(0.25 * len(own)), round(0.2 * len(own))])
            begin += len(own)
            model = alone(made(i), x[of[0]], y[of[0]], 2)
            with torch.no_grad():
                self.assertAlmostEqual(self.last(run, i), F.cross_entropy(model(x[of[1]]), y[of[1]]).item(), delta=1e-9)
                tested = F.cross_entropy(run.models[i].double()(x[of[2]]), y[of[2]]).item()
            self.assertAlmostEqual(run.table["test.loss"][i], tested, delta=1e-9)

    def test_rows_of_shared_data(self):
        x, y = rows(60)
        generator = torch.Generator().manual_seed(1)
        own = [torch.randint(60, (count,), generator=generator) for count in (80, 41, 12)]
        run = self.train(Rowwise, data=(x, y), rows=own, validation=0.25, metrics={"rows": lambda output, target: len(target)},
                         epochs=2, **PLAIN)
        split = numpy.load(self.path("run/split.npz"))
        held = set(split["validation"].tolist())
        self.assertEqual((len(held), list(run.table["rows"])), (15, [15] * 3))
        xv, yv = x[sorted(held)], y[sorted(held)]
        for i, chosen in enumerate(own):
            learned = [row for row in chosen.tolist() if row not in held]
            self.assertEqual(split["train"][split["train_model"] == i].tolist(), learned)
            model = alone(made(i), x[learned], y[learned], 2)
            with torch.no_grad():
                self.assertAlmostEqual(self.last(run, i), F.cross_entropy(model(xv), yv).item(), delta=1e-9)
        self.assertEqual(len(run.best(2).predict(xv)), 15)
        run.ensemble(2)

    def test_normalised_and_weighted(self):
        x, y = rows(60)
        weight = torch.rand(60, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        own = [range(0, 40), range(25, 60), range(7)]
        run = self.train(Named, data=(x, y), rows=own, sample_weight=weight, normalize={"x": "standard"}, epochs=2, **PLAIN)
        for i, chosen in enumerate(own):
            chosen = list(chosen)
            mean, deviation = x[chosen].mean(0), x[chosen].std(0, correction=0)
            target = torch.stack([y[chosen].double(), weight[chosen]], 1)

            def loss(output, batch):
                losses = F.cross_entropy(output, batch[:, 0].long(), reduction="none")
                return (losses * batch[:, 1]).sum() / batch[:, 1].sum()

            self.same(run.models[i], alone(made(i, Named), (x[chosen] - mean) / deviation, target, 2, loss=loss))

    def test_weights_beside_held_rows(self):
        """Weights of the training rows alone: held-back rows count alike."""
        (x, y), (xv, yv) = rows(60), rows(31, 4)
        weight = torch.rand(60, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

        def loss(output, batch):
            return (F.cross_entropy(output, batch[:, 0].long(), reduction="none") * batch[:, 1]).sum() / batch[:, 1].sum()

        pairs, held = [(x[:40], y[:40]), (x[40:], y[40:])], [(xv[:9], yv[:9]), (xv[9:], yv[9:])]
        for data, validation, options in (((x, y), (xv, yv), {"seeds": 2}), (pairs, held, {})):
            run = self.train(Rowwise, data=data, validation=validation, sample_weight=weight, epochs=2, overwrite=True, **PLAIN, **options)
            for i in range(2):
                own = slice(None) if options else (slice(0, 40), slice(40, 60))[i]
                model = alone(made(i), x[own], torch.stack([y.double(), weight], 1)[own], 2, loss=loss)
                self.same(run.models[i], model)
                with torch.no_grad():
                    seen, target = (xv, yv) if options else held[i]
                    self.assertAlmostEqual(self.last(run, i), F.cross_entropy(model(seen), target).item(), delta=1e-9)

    def test_each_row_once_an_epoch(self):
        pairs = [rows(12, 1), rows(4, 2), rows(7, 3)]
        run = self.train(Rowwise, data=pairs, epochs=3, batch=1, lr=0.0, weight_decay=0.0, dtype="f64", check=0)
        for i, (x, y) in enumerate(pairs):
            with torch.no_grad():
                expected = F.cross_entropy(made(i)(x), y).item()
            own = run.curves[run.curves["model"] == i]
            self.assertEqual(own["step"].iloc[-1], 3 * len(y))
            steps = numpy.diff([0, *own["step"]])
            self.assertAlmostEqual((own["train_loss"] * steps).sum() / steps.sum(), expected, delta=1e-9)

    def test_batch_norm(self):
        pairs = [rows(count, seed) for seed, count in enumerate((53, 20, 33))]
        self.refused("[Net.pt2] rows of a batch: got answers that depend on the other rows (batch norm), expected each by itself where "
                     "models have different numbers of rows; try drop_last=True",
                     lambda: self.own(Net, data=pairs, epochs=2, **PLAIN))
        run = self.train(Net, data=pairs, drop_last=True, epochs=2, save="dropped", **PLAIN)
        self.assertEqual(list(run.table["step"]), [6, 2, 4])
        for i, (x, y) in enumerate(pairs):
            self.same(run.models[i], alone(start(i).double(), x, y, 2, drop_last=True))
        self.refused("[drop_last] rows: got 7 of a model, expected at least a batch of 16; try batch=7",
                     lambda: self.train(Net, data=[*pairs, rows(7)], drop_last=True, save="more", **PLAIN))

    def own(self, *arguments, **options):
        try:
            self.train(*arguments, **options)
        except nw.Error as error:
            folder, _, rest = str(error).partition("/Net.pt2]")
            raise nw.Error(f"[Net.pt2]{rest}" if rest else folder) from None

    def test_losses_of_functions(self):
        pairs = [rows(count, seed) for seed, count in enumerate((53, 20))]

        def each(output, target):
            return F.cross_entropy(output, target, reduction="none") + output.square().sum(1)

        run = self.train(Rowwise, data=pairs, loss=each, epochs=2, **PLAIN)
        for i, (x, y) in enumerate(pairs):
            self.same(run.models[i], alone(made(i), x, y, 2, loss=lambda output, target: each(output, target).mean()))
        self.refused("[loss] output.1: got one number a batch, expected one a row where models have different numbers of rows; try a loss "
                     "of each row (reduction='none'), or drop_last=True",
                     lambda: self.train(Rowwise, data=pairs, loss=lambda output, target: each(output, target).mean(), save="mean", **PLAIN))

    def test_own_epochs(self):
        x, y = rows()
        for name, arguments, options in (("crossed", (), {"epochs": [1, 3]}), ("zipped", (nw.zip(epochs=[1, 3], clip=[0, 1e9]),), {})):
            run = self.train(Net, *arguments, data=(x, y), validation=rows(31, 4), save=name, **PLAIN, **options)
            self.assertEqual((list(run.table["epochs"]), list(run.table["step"]), len(run.parts)), ([1, 3], [4, 12], 1))
            for i, epochs in enumerate((1, 3)):
                model = alone(start(i).double(), x, y, epochs)
                with torch.no_grad():
                    xv, yv = rows(31, 4)
                    self.assertAlmostEqual(self.last(run, i), F.cross_entropy(model(xv), yv).item(), delta=1e-9)
        self.refused("[schedule] cosine: got models with different numbers of steps, expected one number, as it runs to the last step; try constant",
                     lambda: self.train(Net, data=(x, y), epochs=[1, 3], schedule="cosine", save="cosine", **PLAIN))

    def test_what_is_refused(self):
        x, y = rows()
        self.refused("[data] input of model 1: got rows of shape (4,), expected (5,) as model 0 has; try rows of one shape",
                     lambda: self.train(Rowwise, data=[(x, y), (x[:, :4], y)]))
        self.refused("[data] column y of model 1: got 52 rows, expected 53 as the others; try columns of one length",
                     lambda: self.train(Rowwise, data=[(x, y), (x, y[1:])]))
        self.refused("[train] rows of model 1: got none, expected some to learn from; try torch.randint(len(x), (len(x),))",
                     lambda: self.train(Rowwise, data=(x, y), rows=[[0, 1], torch.empty(0, dtype=torch.long)]))
        self.refused("[train] validation: got rows of 3 models' own, expected those of 2; try validation=(X, y)",
                     lambda: self.train(Rowwise, data=[(x, y)] * 2, validation=[(x, y)] * 3))
        self.refused("[train] validation of model 1: got 1 rows, expected some to learn from and some to hold back; try a smaller fraction, "
                     "or more rows", lambda: self.train(Rowwise, data=[(x, y), (x[:1], y[:1])], validation=0.2))
        pairs = [(x[:30], y[:30]), (x[30:], y[30:])]
        for option, values in (("group", torch.arange(53) // 4), ("fold", torch.arange(53) % 3)):
            for validation in (pairs, None):
                self.refused(f"[train] {option}: got it and rows of each model's own, expected one or the other; try leaving {option}= out",
                             lambda: self.train(Rowwise, data=pairs, validation=validation, **{option: values}))


class Named(Rowwise):
    """With an argument that options can name."""

    def forward(self, x):
        return super().forward(x)


if __name__ == "__main__":
    unittest.main()
