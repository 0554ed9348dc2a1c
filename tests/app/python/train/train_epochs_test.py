"""Rows that are others in each epoch, of a DataLoader or of a function that changes batches, against separate modules."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import unittest  # noqa: E402

import numpy  # noqa: E402
import torch  # noqa: E402
from separate_runs import Net, Runs, rows, start  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

import nwide as nw  # noqa: E402


class Noisy(Dataset):
    """Other values each time."""

    def __init__(self):
        self.x, self.y = rows()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i] + 0.1 * torch.randn(5, dtype=torch.float64), self.y[i]


class Linear(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x)


class Heard(DataLoader):
    """Keeps the batches that it gave, by epoch."""

    epochs = ()

    def __iter__(self):
        batches = list(super().__iter__())
        self.epochs = [*self.epochs, batches]
        return iter(batches)


def validation_losses(seed, epochs, xv, yv, lr=0.01):
    model = start(seed).double()
    step = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for batches in epochs:
        model.train()
        for x, y in batches:
            step.zero_grad()
            F.cross_entropy(model(x), y).backward()
            step.step()
        with torch.no_grad():
            losses.append(F.cross_entropy(model.eval()(xv), yv).item())
    return losses


class EachEpoch(Runs):
    def train(self, save="run", **options):
        return nw.train(Net, save=self.path(save), db=self.path("results.db"), quiet=True, **{"dtype": "f64", "check": 0, "lr": 0.01, "seeds": 2,
                                                                                           "epochs": 4, **options})

    def check(self, run, epochs, held):
        for seed in range(2):
            own = list(run.curves[run.curves["model"] == seed]["loss"])
            expected = validation_losses(seed, epochs, *held)
            self.assertEqual(len(own), len(expected))
            for value, loss in zip(own, expected):
                self.assertAlmostEqual(value, loss, delta=1e-9)

    def test_a_loader_read_anew(self):
        held, seen = rows(31, seed=4), []
        loader = Heard(Noisy(), batch_size=16, shuffle=True)
        run = self.train(data=loader, validation=held, callbacks=lambda look: seen.append(look.step))
        self.assertEqual((len(loader.epochs), seen, run.report["batch"]), (4, [4, 8, 12, 16], 16))
        self.check(run, loader.epochs, held)
        self.assertTrue(any(" of training went by waiting for rows" in note for note in run.notes))
        again = Heard(Noisy(), batch_size=16, shuffle=True)
        self.train(data=again, validation=held, save="again")
        for first, second in zip(loader.epochs, again.epochs):  # by the same seed the same draws
            self.assertTrue(all(torch.equal(x, u) for (x, _), (u, _) in zip(first, second)))
        with self.assertRaisesRegex(nw.Error, r"^\[resume\] rows: got a run in which each epoch had rows of its own, expected rows that are "
                                              r"kept; try a new run with weights='.*/last'$"):
            run.resume(epochs=6)

    def test_a_function_of_a_batch(self):
        (x, y), held, given = rows(), rows(31, seed=4), []

        def shake(batch):
            batch["x"] += torch.randn_like(batch["x"])
            given.append((batch["x"].clone(), batch["y"]))
            return {"x": batch["x"]}

        run = self.train(data=(x, y), validation=held, augment=shake, batch=16, order="sequential")
        self.assertEqual(len(given), 4 * 4)
        self.check(run, [given[4 * e:4 * e + 4] for e in range(4)], held)
        run = self.train(data=(x, y), validation=0.25, augment=shake, batch=16, save="share")
        learned = numpy.load(self.path("share/split.npz"))["validation"]
        for model, loss in zip(run.models, run.table["loss"]):  # of rows as they are
            with torch.no_grad():
                self.assertAlmostEqual(F.cross_entropy(model.double()(x[learned]), y[learned]).item(), loss, delta=1e-9)

    def test_a_function_sees_the_rows_that_are_learned(self):
        """Others are neither in its batches nor changed: what it mixes comes of training rows alone."""
        x, y = rows()
        real, groups = x[:, :1] * 2, [f"of {i % 7}" for i in range(len(x))]
        for place, options in enumerate(({"data": (x, y)}, {"data": (x, y), "test": 0.2, "seed": 5}, {"data": (x, real), "validation": 0.3},
                                         {"data": (x, y), "group": groups, "test": 0.2}, {"data": {"x": x, "y": y}, "loss": "cross_entropy"},
                                         {"data": {"x": x, "y": y[:, None] > 0}, "target": "y", "loss": "bce_with_logits"},
                                         {"data": (x, y), "loss": lambda output, target: F.cross_entropy(output, target), "seed": [3, 4], "n": 2},
                                         {"data": (x, y), "validation": None, "test": 0.4}, {"data": (x, y), "validation": None})):
            with self.subTest(place):
                given = []

                def mixed(batch, given=given):
                    given.append((batch["x"].clone(), batch["y"]))
                    return {"x": 0.7 * batch["x"] + 0.3 * batch["x"].flip(0)}

                outputs = options["data"][1].size(1) if isinstance(options["data"], tuple) and options["data"][1].dim() == 2 else 3
                outputs = 1 if "target" in options else outputs
                save = f"split {place}"
                nw.train(lambda outputs=outputs: Linear(5, outputs), save=self.path(save), db=self.path("results.db"), quiet=True,
                         augment=mixed, batch=16, epochs=2, order="sequential", lr=0.01,
                         **{"validation": 0.25, "n": 1, **options})
                learned = numpy.load(self.path(f"{save}/split.npz"))["train"]
                self.assertEqual(len(given), 2 * -(-len(learned) // 16))
                torch.testing.assert_close(torch.cat([batch for batch, _ in given]), x[learned].repeat(2, 1), rtol=0, atol=0)

        held = numpy.load(self.path("split 0/split.npz"))["validation"]
        x[held] += 100
        given = []

        def mix(batch):
            given.append((0.7 * batch["x"] + 0.3 * batch["x"].flip(0), batch["y"]))
            return {"x": given[-1][0]}

        run = self.train(data=(x, y), validation=0.25, augment=mix, batch=16, order="sequential", save="mixed")
        size = len(given) // 4
        self.check(run, [given[size * e:size * (e + 1)] for e in range(4)], (x[held], y[held]))

    def test_of_both_and_one_epoch(self):
        held, given = rows(31, seed=4), []

        def shake(batch):
            given.append((batch["x"] * 2, batch["y"]))
            return {"x": batch["x"] * 2}

        self.check(self.train(data=Heard(Noisy(), batch_size=16), augment=shake, validation=held, epochs=1), [given[:4]], held)

    def test_errors(self):
        x, y = rows()

        def fails(batch):
            if len(calls) >= 8:
                raise ZeroDivisionError("mine")
            calls.append(1)
            return {}

        calls = []
        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            self.train(data=(x, y), augment=fails, batch=16)
        self.assertEqual(nw.open_run(self.path("run")).report["run"]["step"], 8)
        loader = DataLoader(Noisy(), batch_size=16)
        for words, options in (
                ("[train] augment: got NoneType, expected a dict of columns that it changes, of x, y; try return {'x': ...}",
                 {"augment": lambda batch: None}),
                ("[train] augment: got z, expected a dict of columns that it changes, of x, y; try return {'x': ...}",
                 {"augment": lambda batch: {"z": batch["x"]}}),
                ("[train] augment x: got (16, 4), expected (16, 5) as it got; try as many rows, of the same shape",
                 {"augment": lambda batch: {"x": batch["x"][:, 1:]}, "batch": 16}),
                ("[no/python/data.safetensors] column group: got [53, 1], expected a number a row; try another column",
                 {"augment": lambda batch: {}, "validation": 0.2, "group": torch.arange(53)[:, None]}),
                ("[no/python/data.safetensors] column group: got [53, 2], expected a number a row; try another column",
                 {"augment": lambda batch: {}, "validation": 0.2, "group": torch.arange(106).reshape(53, 2)}),
                ("[train] eval_every: got it with a function as augment, expected evaluations after each epoch; try leaving eval_every= out",
                 {"augment": lambda batch: {}, "eval_every": 3}),
                ("[train] folds: got it with a function as augment, expected one set of rows that all models learn from; try leaving folds= out",
                 {"augment": lambda batch: {}, "folds": 3}),
                ("[train] augment: got no_store too, expected a store, through which the run is told, and its own words; try a run without "
                 "no_store=", {"augment": lambda batch: {}, "no_store": True}),
                ("[train] batch: got 8 with a DataLoader, expected 16, as its batches come; try leaving batch= out",
                 {"data": loader, "batch": 8}),
                ("[train] validation: got a fraction of a DataLoader, whose rows come in another order each epoch, expected rows of their own; "
                 "try validation=(X, y), or another DataLoader", {"data": loader, "validation": 0.2}),
                ("[train] sample_weight: got numbers beside a DataLoader, whose rows come in another order each epoch, expected a column of its "
                 "batches; try items that are dicts, and sample_weight='w'", {"data": loader, "sample_weight": torch.ones(53)}),
                ("[data] batches: got 16, 5, 32 rows, expected batch_size rows in each but the last; try a DataLoader without a batch_sampler",
                 {"data": DataLoader(Noisy(), batch_sampler=[range(16), range(5), range(32)])})):
            self.refused(words, lambda: self.train(**{"data": (x, y), "save": "no", **options}))


if __name__ == "__main__":
    unittest.main()
