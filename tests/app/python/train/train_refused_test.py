"""What `nw.train` refuses, each in one line and before anything is written."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import unittest  # noqa: E402

import numpy  # noqa: E402
import pandas  # noqa: E402
import torch  # noqa: E402
from separate_runs import Net, Runs, rows, separate  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402
from nwide.training.options import in_words  # noqa: E402


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 3)

    def forward(self, x):
        return self.a(x) if x.sum() > 0 else self.a(-x)


class Hides(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 3)
        self.scale = torch.rand(3)

    def forward(self, x):
        return self.a(x) * self.scale


class Draws(nn.Module):
    """With a start that is no tensor."""

    def __init__(self, draw):
        super().__init__()
        self.a = nn.Linear(5, 3)
        self.drawn = draw()

    def forward(self, x):
        return self.a(x[:, self.drawn] if isinstance(self.drawn, list) else x * self.drawn)


class Acts(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.a, self.act = nn.Linear(5, 3), act

    def forward(self, x):
        return self.act(self.a(x))


class Sign(torch.autograd.Function):
    """With a gradient of its own."""

    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def hooked(h):
    h.register_hook(lambda gradient: 2 * gradient)
    return h


class Scaled(nn.Module):
    """A loss with a number of its own."""

    def __init__(self, learns=True):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1), requires_grad=learns)

    def forward(self, output, target):
        return nn.functional.cross_entropy(output * self.scale, target)


class Arguments(Runs):
    def no(self, words, models=Net, *beside, **options):
        options.setdefault("data", rows())
        self.refused(words, lambda: self.train(models, *beside, **options))
        self.assertFalse(os.path.exists(self.path("run")))

    def test_a_loss_that_learns(self):
        own, scaled = torch.ones(3, requires_grad=True), Scaled()
        advice = ("expected parameters of the network alone to learn; try requires_grad_(False) for what stays as it is "
                  "(a teacher), or a network that has it as a parameter and returns it")
        for loss, which in ((scaled, " scale (1,)"), (lambda output, target: scaled(output, target), " (1,)"),
                            (lambda output, target: nn.functional.cross_entropy(output + own, target), " (3,)"),
                            (lambda output, batch: nn.functional.cross_entropy(output + own, batch["y"]), " (3,)")):
            self.no(f"[train] loss: got a tensor{which} of its own that requires gradients, {advice}", loss=loss, seeds=2)
        (x, y), (xv, yv), net = rows(), rows(31, seed=4), Net()

        def held(output, target):  # looks at the network's own weights, and at tensors that do not learn
            return Scaled(False)(output + own.detach(), target) + 0.1 * net.a.weight.square().sum()

        run = self.train(net, data=(x, y), validation=(xv, yv), loss=held, n=1, lr=0.01, epochs=2, batch=16, order="sequential",
                         dtype="f64", check=0)
        looks, _ = separate(net, x, y, xv, yv, 0.01, epochs=2, loss=held)
        for value, (_, loss, _) in zip(run.curves["loss"], looks, strict=True):
            self.assertAlmostEqual(value, loss, delta=1e-9)

    def test_names(self):
        line = "[train] {}: got an argument of this name, expected an option of workbench train, with underscores; try {}="
        self.no(line.format("epocs", "epochs"), epocs=3, lr=[0.1])
        self.no(line.format("batch_size", "batch"), batch_size=3, lr=[0.1])
        self.no(line.format("metric", "metrics"), metric="accuracy", lr=[0.1])

    def test_advice_that_is_a_command(self):
        self.no("[workbench train] usage: batch: got 0, expected a positive number; try workbench train --help", batch=0, seeds=2)
        lost = "[train] rank 2: got no heartbeat for 40 s, expected one; try train --resume '/a b' with as many as there are"
        self.assertEqual(in_words(lost), lost)

    def test_advice_that_names_another_command(self):
        """Its options keep their names; those of a new run get Python's."""
        predict = "[predict] output 3: got numbers of a whole batch, expected some for each row; try fuse with --weights '/a b/last', or a run with "
        self.assertEqual(in_words(predict + "--output 0"), predict + "output=0")
        resume = "[--resume] --epochs: got another length, expected the one that the cosine schedule ends with; try a new run with "
        self.assertTrue(in_words(resume + "--weights a/last").endswith("try a new run with weights='a/last'"))

    def test_advice_with_two_options(self):
        far = torch.full((8, 4), 1e20), torch.full((8, 3), 1e20)
        self.refused("[train] models: got all 2 diverged, expected one to train; try a smaller lr= or clip=1",
                     lambda: self.train(nn.Linear(4, 3), data=far, loss="mse", optimizer="sgd", lr=1e30, n=2, epochs=2))

    def test_advice_that_python_has_not(self):
        x, y = rows()
        run = self.train(Net, data=(x, y), seeds=2, epochs=1)
        with self.assertRaisesRegex(nw.Error, r"column x: got \[3\] a row, expected \[5\] as forward's x; try another column$"):
            run.parts[0].predict(x[:, :3])
        run = self.train(nn.Sequential(nn.Linear(5, 1), nn.Flatten(0)), data=(x, x[:, 0]), loss="mse", n=2, lr=[0.1, 0.2], epochs=1, save="one")
        self.refused("[apply] softmax: got one number a row, expected scores of classes; try sigmoid",
                     lambda: run.parts[0].predict(x, apply="softmax"))

    def test_a_folder_that_is_no_path(self):
        for save in (True, 3):
            self.refused(f"[train] save: got {save}, expected a folder's path, or False; try save=\"runs/a\"",
                         lambda given=save: nw.train(Net, data=rows(), lr=[0.1], save=given, quiet=True, no_store=True))

    def test_how_many(self):
        self.no("[train] models: got nothing that says how many, expected N of them; try seeds=8, or lr=[1e-4, 1e-3]",
                lr=0.1)
        self.no("[train] lr: got a range that does not say how many, expected how many models there are; try n=8, or "
                "nw.log(1e-4, 1e-1, 8)", lr=nw.log(1e-4, 1e-1))
        self.no("[train] n: got 5, expected a multiple of 2, as it counts all models; try n=10", n=5, seeds=2)
        self.no("[train] n: got 4, expected 2, as many as the other arguments make; try leaving it out", Net,
                nw.zip(lr=[0.1, 0.2]), n=4)
        self.no("[train] lr: got an empty list, expected at least one value; try lr=[1e-3]", lr=[])
        self.no("[train] seeds: got 0, expected a whole number of at least 1; try seeds=8", seeds=0)
        self.no("[train] lr: got it in nw.zip too, expected it once; try leaving one out", Net, nw.zip(lr=[0.1, 0.2]),
                lr=0.1)
        self.refused("[nw.zip] b: got 1 values, expected 2 as a has; try lists of equal length", lambda: nw.zip(a=[1, 2],
                     b=[1]))
        self.refused("[nw.zip] b: got 0.1, expected a list, or a range that says how many; try nw.log(1e-4, 1e-1, 8)",
                     lambda: nw.zip(a=[1, 2], b=0.1))

    def test_what_the_command_refuses(self):
        self.no("[train] momentum: got a hyperparameter of rmsprop, expected one of adamw; try optimizer='rmsprop'",
                momentum=[0.1, 0.2])
        self.no("[train] optimizer: got adamx, expected one of adam, adamw, lion, rmsprop, sgd; try adam", seeds=2,
                optimizer="adamx")

    def test_models(self):
        self.no("[train] models: got int, expected a class or factory, a module or a list of them; try nw.train(Net, ...)", 3, lr=[0.1])
        self.no("[train] models: got an empty list, expected a list of nn.Module; try a class, as nw.train(Net, ...)", [],
                lr=[0.1])
        self.no("[train] factory: got int, expected an nn.Module; try a class of nn.Module", lambda: 3, lr=[0.1])
        self.no("[train] net: got it with modules that are made, expected a class or factory that takes it; try "
                "nw.train(Net, net={...}, ...)", Net(), lr=[0.1], net={"width": 3})
        self.no("[train] scale of model 1: got values other than model 0's outside its state_dict, expected the same for all "
                "models; try register_buffer", Hides, seeds=2)
        with self.assertRaisesRegex(nw.Error, r"^\[train\] forward: got .*data-dependent.* from torch.export, expected a network that "
                                              r"it can export; try the module itself on the first rows of the data$"):
            self.train(Branches, data=rows(), seeds=2)

    def test_starts_that_are_no_tensors(self):
        """The program has one number or function for all models: a run of several that have others is refused, of one it is right."""
        self.no("[train] the model itself.act of model 2: got function tanhshrink, expected function softsign as in model 0; try models of one architecture",
                [Acts(nn.functional.softsign), Acts(nn.functional.softsign), Acts(nn.functional.tanhshrink), Acts(nn.functional.softsign)], lr=[0.1] * 4)
        self.no("[train] the model itself.training of model 1: got False, expected True as in model 0; try model.eval() or "
                "model.train() on all of them", [Acts(nn.functional.softsign), Acts(nn.functional.softsign).eval()], lr=[0.1] * 2)
        for draw in (lambda: float(torch.rand(())), lambda: torch.randperm(5).tolist()):
            with self.assertRaisesRegex(nw.Error, r"^\[train\] the model itself\.drawn.* of model 1: got .*, expected .* as in model 0; try "):
                self.train(lambda: Draws(draw), data=rows(), seeds=2, overwrite=True)
            x, y = rows()
            run = self.train(lambda: Draws(draw), data=(x, y), validation=(x, y), seeds=1, seed=5, epochs=2, dtype="f64", overwrite=True)
            self.assertAlmostEqual(run.table["loss"][0], nn.functional.cross_entropy(run.models[0](x), y).item(), delta=1e-9)

    def test_gradients_of_their_own(self):
        def with_hook(kind):
            net = Net()
            if kind == "module":
                net.register_full_backward_hook(lambda *_: None)
            else:
                next(net.parameters()).register_hook(lambda gradient: 2 * gradient)
            return net

        for act, words in ((Sign.apply, "[backward] Sign: got a torch.autograd.Function, expected operators with PyTorch's own gradients; try "
                                        "x + (f(x) - x).detach() for gradients straight through"),
                           (hooked, "[backward] register_hook: got a hook on a tensor inside forward, expected none; try one on the wide "
                                    "module's inputs, outputs or parameters, in a loop of your own")):
            self.no(words, lambda: Acts(act), seeds=2)
        advice = "try nw.compile and a loop of your own, with hooks on the wide module and its parameters"
        self.no(f"[train] the model itself: got a backward hook, expected none inside a wide module; {advice}",
                lambda: with_hook("module"), seeds=2)
        name = next(name for name, _ in Net().named_parameters())
        self.no(f"[train] parameter {name} of model 0: got a hook on it, expected none; {advice}", lambda: with_hook("parameter"), seeds=2)

    def test_functions(self):
        def mcc(output, target):
            return 0.0

        self.no("[train] monitor: got mcc, a function of Python, expected one of the command's metrics, as those of Python are "
                "computed after the run; try monitor='loss'", seeds=2, metrics={"mcc": mcc}, monitor="mcc", validation=0.2)
        self.no("[train] metrics: got functions in a run without validation rows or without a folder, expected rows to compute "
                "them of; try validation=0.2", seeds=2, metrics={"mcc": mcc})
        self.no("[train] metrics mcc: got str, expected a function of (output, target); try metrics={'mcc': f}", seeds=2,
                metrics={"mcc": "f"}, validation=0.2)
        self.no("[train] metrics: got functions in a run without validation rows or without a folder, expected rows to compute "
                "them of; try a run without save=False", seeds=2, metrics={"mcc": mcc}, no_save=True, validation=0.2)
        for name in ("loss", "train_loss", "lr", "seed", "model", "step", "status", "best_step", "fold", "test.loss"):
            self.no(f"[train] metrics {name}: got the name of a column of run.table, expected another one; try metrics={{'my_{name}': f}}",
                    seeds=2, metrics={name: mcc}, validation=0.2, lr=[0.1, 0.2])
        for given in (nw.zip(eps=[1e-8, 1e-7]),), ():
            self.no("[train] metrics eps: got the name of a column of run.table, expected another one; try metrics={'my_eps': f}", Net, *given,
                    metrics={"eps": mcc}, validation=0.2, **({} if given else {"eps": [1e-8, 1e-7]}))
        (x, y), (xv, yv) = rows(), rows(31, 4)
        run = self.train(Net, data=(x, y), validation=(xv, yv), eps=1e-7, epochs=1, save="eps", dtype="f64", seeds=2,
                         metrics={"eps": lambda output, target: nn.functional.cross_entropy(output, target)})
        for model, value in zip(run.models, run.table["eps"]):
            with torch.no_grad():
                self.assertAlmostEqual(value, nn.functional.cross_entropy(model.double()(xv), yv).item(), delta=1e-9)
        for functions, what in (([mcc, lambda output, target: 0.0], "a function without a name in a list"), ([mcc, mcc], "two functions mcc in a list"),
                                (lambda output, target: 0.0, "a function without a name")):
            self.no(f"[train] metrics: got {what}, expected functions with names of their own; try metrics=['accuracy', {{'mcc': f}}]",
                    seeds=2, metrics=functions, validation=0.2)
        x, y = rows()
        self.no("[train] metrics: got functions and no target, expected the column that they compare with; try data=(X, y), or target='y'",
                data={"x": x, "y": y}, seeds=2, metrics={"mcc": mcc}, validation=0.2,
                loss=lambda output, batch: (output[:, 0] - batch["y"]).square().mean())

    def test_normalisation(self):
        for given, what in ((([0.0, 0.0], [1.0, 1.0]), "tuple with other things than numbers"), (None, "NoneType"), (True, "bool"),
                            (torch.ones(2, 2), "Tensor")):
            self.no(f"[train] normalize x: got {what}, expected 'standard', or a mean and a deviation for all numbers; try "
                    "normalize={'x': (0.5, 2)}", seeds=2, normalize={"x": given})

    def test_data(self):
        x, y = rows()
        self.no("[data] column y: got 52 rows, expected 53 as the others; try columns of one length", data=(x, y[1:]),
                seeds=2)
        self.no("[data] x: got object, expected numbers; try a tensor, a NumPy array or a frame",
                data=(numpy.array([{}, {}]), y[:2]), seeds=2)
        self.no("[train] rows of model 1: got 0 to 53, expected row numbers from 0 to 52; try torch.randint(len(x), (len(x),))",
                rows=[[0, 1], [0, 53]])
        self.no("[train] models: got 2 models' own rows, expected 3, as many as the other arguments make; try as many of "
                "each", rows=[[0, 1], [2, 3]], seeds=3)
        self.no("[train] metrics: got functions and validation rows of each model's own, expected rows that all models share; try a "
                "metric by its name", data=[(x, y), (x, y)], metrics={"f": len}, validation=0.2)
        frame = pandas.DataFrame({"a": [1.0, None, 3.0], "b": [1.0, 2.0, None], "y": [0, 1, 0]})
        self.no("[data] column a: got 1 gaps, the first in row 1, expected a value in each row; try frame.dropna() or fillna",
                data=frame, target="y", seeds=2)
        self.no("[data] target: got a frame alone, expected what is to be learned; try target='y'", data=frame, seeds=2)
        self.no("[train] group: got owner, expected one of the columns x, y; try group=tensor", data={"x": x, "y": y},
                group="owner", seeds=2)
        self.no("[data] forward's x: got columns z, y, expected one named x; try column={'x': 'z'}", data={"z": x,
                "y": y}, seeds=2)
        self.no("[train] validation: got str, expected a fraction, or rows as data has them; try validation=0.2",
                validation="0.2", seeds=2)

    def test_no_values_to_choose_by(self):
        x, y = rows()
        one_class = (x[y == 0], y[y == 0])  # of which auc has no value
        run = self.train(Net, data=(x, y), validation=one_class, metrics=["auc"], monitor="auc", lr=[0.01, 0.1], epochs=1)
        self.refused("[best] models: got no evaluation in which auc is a number, expected values to choose by; try another monitor=, "
                     "or run.models", run.best)
        run = self.train(Net, data=(x, y), lr=[0.01, 0.1], epochs=1, overwrite=True)
        self.refused("[best] models: got a run without validation rows, expected values to choose by; try validation=0.2", run.best)

    def test_a_folder_with_a_run(self):
        self.train(Net, data=rows(), seeds=2, epochs=1)
        before = os.path.getmtime(self.path("run/report.json"))
        self.refused("[run] save: got a folder with a run in it, expected a new one; try another save=, nw.open_run on it, or "
                     "overwrite=True", lambda: self.train(Net, data=rows(), seeds=2, epochs=1))
        with self.assertRaises(nw.Error):  # refused by the command: the run that is there stays whole
            self.train(Net, data=rows(), seeds=2, epochs=1, overwrite=True, loss="none")
        self.assertEqual(os.path.getmtime(self.path("run/report.json")), before)
        self.assertEqual(sorted(n for n in os.listdir(self.path("run")) if n.startswith("python")), ["python",
                         "python.json"])
        nw.open_run(self.path("run")).resume(epochs=2, quiet=True)
        run = self.train(Net, data=rows(), seeds=3, epochs=1, overwrite=True)
        self.assertEqual(len(run), 3)
        self.assertEqual(len([n for n in os.listdir(self.path("run")) if n.startswith("python")]), 2)
        run.resume(epochs=2, quiet=True)
        self.assertEqual(list(run.table["step"]), [4] * 3)


if __name__ == "__main__":
    unittest.main()
