"""Forward's whole results in functions of Python, and what tables and choices say of runs with several programs."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import math  # noqa: E402
import unittest  # noqa: E402

import numpy  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from separate_runs import Net, Runs, rows  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402


class OfTheBatch(nn.Module):
    """Rows affect each other: the batch norm has no running statistics. Two arguments, of which the second has many numbers."""

    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.BatchNorm1d(5, track_running_stats=False), nn.Linear(5, 3)

    def forward(self, x, more):
        out = self.last(self.norm(x) + more.mean((1, 2))[:, None])
        return out, 2 * out


class Prototypes(nn.Module):
    """A second result that is as long as the largest batch of an evaluation, and not of its rows."""

    def __init__(self):
        super().__init__()
        self.first, self.places = nn.Linear(5, 3), nn.Parameter(torch.randn(1024, 2))

    def forward(self, x):
        return self.first(x), self.places * 2


class Auxiliary(nn.Module):
    """One result or two."""

    def __init__(self, two):
        super().__init__()
        self.first, self.two = nn.Linear(5, 3), two

    def forward(self, x):
        out = self.first(x)
        return (out, out.sum(1)) if self.two else out


class Beside(nn.Module):
    """A second result that is no number where the first argument is negative."""

    def __init__(self, beside):
        super().__init__()
        self.first, self.beside = nn.Linear(5, 3), beside

    def forward(self, x):
        return self.first(x), torch.where(x > 0, x, self.beside)


class Rowwise(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))


class Depth(nn.Module):
    def __init__(self, hidden=None):
        super().__init__()
        self.first = nn.Linear(5, 3) if hidden is None else nn.Sequential(nn.Linear(5, int(hidden)), nn.Linear(int(hidden), 3))

    def forward(self, x):
        return self.first(x)


def of_first(output, target):
    return F.cross_entropy(output[0] if isinstance(output, tuple) else output, target)


class Results(Runs):
    def test_rows_that_affect_each_other(self):
        """The loss given as a metric too equals the loss: no batch of an evaluation is filled up."""
        data, held = ((x, torch.randn(len(x), 80, 80, dtype=torch.float64), y) for x, y in (rows(), rows(1501, seed=4)))
        run = self.train(OfTheBatch, data=data, validation=held, loss=of_first, metrics={"m": of_first}, dtype="f64", check=0,
                         lr=[0.1, 0.01], seeds=1, epochs=2)
        for row in run.table.itertuples():
            self.assertAlmostEqual(row.m, row.loss, delta=1e-9)

    def test_results_as_long_as_a_batch(self):
        """2048 rows are two batches of 1024; the prototypes stay 1024."""
        x, y = rows(2048)
        run = self.train(Prototypes, data=rows(), validation=(x, y), loss=of_first, lr=[0.1, 0.01], seeds=1, epochs=1, dtype="f64",
                         metrics={"long": lambda output, _: len(output[1]), "loss of it": of_first})
        self.assertEqual(list(run.table["long"]), [1024, 1024])
        for model, value in zip(run.models, run.table["loss of it"]):
            with torch.no_grad():
                self.assertAlmostEqual(of_first(model(x), y).item(), value, delta=1e-12)

    def test_one_loss_of_several_programs(self):
        run = self.train(Auxiliary, net={"two": [False, True]}, data=rows(), validation=0.3, loss=of_first, lr=0.1, seeds=2, epochs=2)
        self.assertEqual(run.best(1).indices, [min(range(4), key=lambda i: run.table["loss"][i])])

    def test_answers_of_exports_and_of_the_command_take_no_target(self):
        """With a loss that is a function, which the network computes beside forward's two results."""
        (x, y), files = rows(), [self.path("wide.pt2"), self.path("wide.ts")]
        run = self.train(Auxiliary, net={"two": True}, data=(x, y), validation=0.3, loss=of_first, lr=[0.1, 0.01], seeds=1, epochs=1,
                         dtype="f64", export=files)
        with torch.no_grad():
            exact = [torch.stack(results) for results in zip(*(model(x) for model in run.models))]
            for wide in (torch.export.load(files[0]).module(), torch.jit.load(files[1])):
                got = wide(x.expand(2, -1, -1).contiguous())
                self.assertEqual(len(got), 2)
                for mine, results in zip(got, exact):
                    self.assertLess((mine - results).abs().max().item(), 1e-9)
        numpy.savez(self.path("rows.npz"), x=x.numpy())
        done = subprocess.run([os.environ["WORKBENCH_BINARY"], "predict", self.path("run"), "--data", self.path("rows.npz"), "--out",
                               self.path("out.npz"), "--reduce", "none"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLess(abs(numpy.load(self.path("out.npz"))["prediction"] - exact[0].numpy()).max(), 1e-9)

    def test_configurations_by_the_chosen_loss(self):
        run = self.train(Net, data=rows(), validation=0.3, loss=["cross_entropy", "cross_entropy:label_smoothing=0.1"], lr=0.1,
                         seeds=2, epochs=1)
        self.assertEqual(len(run.by("chosen.loss")), 2)
        self.assertEqual(list(run.by("chosen.loss")["n"]), [2, 2])

    def test_configurations_by_numbers_and_words(self):
        """Values of a key that are not all numbers make as many groups as there are values."""
        chosen = {"warmup": [0, "20%"], "optimizer": ["adamw", "sgd"]}
        run = self.train(Net, data=rows(), validation=0.3, lr=[0.1, 0.01], seeds=2, epochs=1, **chosen)
        self.table_by(run, "warmup")
        self.table_by(run, "optimizer", "beta1")
        self.assertEqual({row.optimizer: row.beta1 for row in run.by("optimizer", "beta1").itertuples() if row.beta1 == row.beta1},
                         {"adamw": 0.9})
        run = self.train(Depth, net={"hidden": [None, 4, True]}, data=rows(), validation=0.3, lr=0.1, seeds=2, epochs=1, save="net")
        self.table_by(run, "net.hidden")

    def test_means_of_one_loss(self):
        run = self.train(Net, data=rows(), validation=0.3, loss=["cross_entropy", "nll"], lr=[0.1, 0.01], seeds=2, epochs=1)
        self.refused("[by] monitor: got loss, of cross_entropy, nll, expected values that can be compared, or groups of one loss; try "
                     "run.by('lr', 'loss')", lambda: run.by("lr"))
        own = run.table.groupby(["lr", "chosen.loss"])["loss"].mean()
        self.assertEqual(len(run.by("lr", "loss")), 4)
        for row in run.by("lr", "loss").to_dict("records"):
            self.assertAlmostEqual(row["loss"], own[row["lr"], row["chosen.loss"]], delta=1e-12)
        run = self.train(Net, data=rows(), validation=0.3, loss=["cross_entropy", "nll"], lr=[0.1, 0.01], seeds=2, epochs=1,
                         metrics=["accuracy"], monitor="accuracy", save="accuracy")
        own = run.table.groupby("lr")["accuracy"].mean()
        self.assertNotIn("loss", run.by("lr"))
        for row in run.by("lr").to_dict("records"):
            self.assertAlmostEqual(row["accuracy"], own[row["lr"]], delta=1e-12)

    def test_functions_of_models_that_diverged(self):
        """A function that gives a number for NaN too is not asked about models without one."""
        (x, y), seen = rows(), []

        def right(output, target):
            seen.append(output)
            return (output.argmax(1) == target).double().mean()

        run = self.train(Rowwise, data=(x, y), validation=(x, y), lr=[0.1, 1e30], optimizer="sgd", seeds=1, epochs=2, metrics={"right": right})
        self.assertEqual(list(run.table["status"]), ["trained", "diverged"])
        with torch.no_grad():
            self.assertAlmostEqual(run.table["right"][0], right(run.models[0](x.float()), y).item(), delta=1e-6)
        self.assertTrue(math.isnan(run.table["right"][1]))
        self.assertTrue(all(output.isfinite().all() for output in seen))
        again = nw.open_run(self.path("run"))
        self.assertTrue(math.isnan(again.table["right"][1]))

    def test_functions_beside_results_that_are_no_numbers(self):
        """A function looks at some of forward's results; what the others are does not matter."""
        (x, y), (xv, yv) = rows(), rows(31, 4)

        def right(output, target):
            return (output[0].argmax(1) == target).double().mean()

        for beside in (math.inf, math.nan):
            run = self.train(Beside, data=(x, y), validation=(xv, yv), loss=of_first, metrics={"right": right}, lr=0.1, seeds=2, epochs=2,
                             net={"beside": beside}, dtype="f64", overwrite=True)
            for model, value in zip(run.models, run.table["right"]):
                with torch.no_grad():
                    self.assertAlmostEqual(value, right(model.double()(xv), yv).item(), delta=1e-9)

    def test_functions_of_configurations(self):
        (x, y), net = rows(), {"lr": [0.1, 0.01], "seeds": 3, "epochs": 1}
        run = self.train(Net, data=(x, y), validation=(x, y), metrics={"top": lambda output, _: output.max()}, **net)
        own = run.table.groupby("lr")["top"].agg(["mean", "std"])
        for row in run.by("lr").to_dict("records"):
            self.assertAlmostEqual(row["top"], own["mean"][row["lr"]], delta=1e-12)
            self.assertAlmostEqual(row["top.sd"], own["std"][row["lr"]], delta=1e-12)
        run = self.train(Rowwise, data=(x, y), validation=(x, y), metrics={"top": lambda output, _: output.max()}, optimizer="sgd",
                         **{**net, "lr": [0.1, 1e30]}, save="diverged")
        by = run.by("lr").set_index("lr")["top"]
        self.assertAlmostEqual(by[0.1], run.table["top"][:3].mean(), delta=1e-12)
        self.assertTrue(math.isnan(by[1e30]))

    def test_functions_beside_names(self):
        x, y = rows()

        def right(output, target):
            return (output.argmax(1) == target).double().mean()

        def top(output, target):
            return output.max()

        run = self.train(Rowwise, data=(x, y), validation=(x, y), metrics=["accuracy", right, {"most": top}], monitor="accuracy", lr=0.1, seeds=2, epochs=2)
        for model, row in zip(run.models, run.table.itertuples()):
            with torch.no_grad():
                self.assertAlmostEqual(row.most, model(x.float()).max().item(), delta=1e-5)
            self.assertAlmostEqual(row.right, row.accuracy, delta=1e-9)
        self.assertEqual(run.best(1).indices, [int(run.table["right"].argmax())])
        run = self.train(Rowwise, data=(x, y), validation=(x, y), metrics=top, lr=0.1, seeds=2, epochs=2, save="one")
        with torch.no_grad():
            self.assertAlmostEqual(run.table["top"][1], run.models[1](x.float()).max().item(), delta=1e-5)

    def test_functions_of_folds(self):
        """Of each model they are for the rows of its fold, which it did not learn from; test rows are of no fold."""
        x, y = rows()

        def mean_of(output, target):
            return F.cross_entropy(output[0] if isinstance(output, tuple) else output, target)

        def count(output, target):
            return len(target)

        for options in ({"folds": 3, "test": 0.2}, {"fold": torch.arange(53) // 20 * 2}, {"net": {"two": True}, "loss": of_first, "folds": 3}):
            make = Auxiliary if "net" in options else Rowwise
            run = self.train(make, data=(x, y), metrics=[mean_of, count], lr=[0.1, 0.01], seeds=2, epochs=2, dtype="f64", overwrite=True,
                             **options)
            fold = numpy.load(self.path("run/split.npz"))["fold"]
            self.assertEqual(set(run.table["fold"]), {0, 1, 2})
            for model, row in zip(run.models, run.table.itertuples()):
                held = torch.as_tensor(fold == row.fold)
                with torch.no_grad():
                    self.assertAlmostEqual(row.mean_of, mean_of(model.double()(x[held]), y[held]).item(), delta=1e-9)
                self.assertAlmostEqual(row.mean_of, row.loss, delta=1e-9)
                self.assertEqual(row.count, held.sum().item())

    def table_by(self, run, *keys):
        """`run.by` against pandas, which groups the rows of `run.table`."""
        found = run.by(*keys)
        own = run.table.groupby(list(keys), dropna=False, sort=False)["loss"].agg(["count", "mean", "std"]).sort_values("mean").reset_index()
        self.assertEqual(found[list(keys)].astype(str).values.tolist(), own[list(keys)].astype(str).values.tolist())
        self.assertEqual(list(found["n"]), list(own["count"]))
        for name, of in (("loss", "mean"), ("loss.sd", "std")):
            for value, true in zip(found[name], own[of]):
                self.assertAlmostEqual(value, true, delta=1e-12)


if __name__ == "__main__":
    unittest.main()
