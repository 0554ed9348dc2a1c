"""What validation numbers and ensembles belong to: the evaluation form of the network, and the run's own loss."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import functools  # noqa: E402
import tempfile  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from separate_runs import rows, separate  # noqa: E402

import nwide as nw  # noqa: E402


def wrapped(function):
    @functools.wraps(function)
    def call(*arguments):
        return function(*arguments)
    return call


def trebled_in_training(module, x):
    return x * 3 if module.training else x


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 1)


class Plain(Base):
    def forward(self, x):
        return self.a(x) * 3 if self.training else self.a(x)


class Decorated(Base):
    @wrapped
    def forward(self, x):
        return self.a(x) * 3 if self.training else self.a(x)


class ByProperty(Base):
    @property
    def noisy(self):
        return self.training

    def forward(self, x):
        return self.a(x) * 3 if self.noisy else self.a(x)


class ByName(Base):
    def forward(self, x):
        return self.a(x) * 3 if getattr(self, "training") else self.a(x)


class ByHelper(Base):
    def forward(self, x):
        return trebled_in_training(self.a, self.a(x))


class BySwitch(Base):
    def train(self, mode=True):
        self.factor = 3 if mode else 1
        return super().train(mode)

    def forward(self, x):
        return self.a(x) * self.factor


class WithNorm(nn.Module):
    """`made`: its layer of two forms."""

    def __init__(self, made=lambda: nn.BatchNorm1d(5)):
        super().__init__()
        self.layer, self.out = made(), nn.Linear(5, 3)

    def forward(self, x):
        return self.out(self.layer(x))


class Frozen(WithNorm):
    """Its layer stays in evaluation form."""

    def train(self, mode=True):
        super().train(mode)
        self.layer.eval()
        return self


class ByEval(WithNorm):
    """Its layer is frozen by hand: eval() alone is its own."""

    def __init__(self):
        super().__init__()
        self.layer.eval()

    def eval(self):
        return super().eval()


class WithMode(Frozen):
    """train() has no default."""

    def train(self, mode):
        return super().train(mode)


class Heads(nn.Module):
    """`training`, `evaluation`: of its three heads, what forward gives in each form."""

    def __init__(self, training, evaluation):
        super().__init__()
        self.body = nn.Linear(5, 6)
        self.heads = nn.ModuleList(nn.Linear(6, 3) for _ in range(3))
        self.forms = evaluation, training

    def forward(self, x):
        x = torch.tanh(self.body(x))
        return self.forms[self.training](*(head(x) for head in self.heads))


class Folder(unittest.TestCase):
    def train(self, *arguments, **options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return nw.train(*arguments, save=os.path.join(folder.name, "run"), threads=1, quiet=True, no_store=True, **options)


class Forms(Folder):
    def test_validation_numbers_are_those_of_the_evaluation_form(self):
        torch.manual_seed(0)
        x = torch.randn(60, 4)
        y = x[:, :1] * 2
        for net in (Plain, Decorated, ByProperty, ByName, ByHelper, lambda: BySwitch().train()):
            run = self.train(net, data=(x, y), validation=(x, y), epochs=2, lr=0.02, seeds=2)
            for told, model in zip(run.table.loss, run.models):
                with self.subTest(type(model).__name__):
                    self.assertAlmostEqual(told, F.mse_loss(model(x), y).item(), delta=1e-5 * told)


    def check_plain(self, models, oracles, loss=F.cross_entropy, true=None, **options):
        """`true`: the loss of an oracle, unless it is `loss`."""
        (x, y), (xv, yv) = rows(), rows(31, seed=4)
        run = self.train(models, data=(x * 3 + 7, y), validation=(xv, yv), lr=0.01, epochs=3, batch=16, order="sequential", dtype="f64",
                         check=0, loss="cross_entropy" if loss is F.cross_entropy else loss, **options)
        for number, oracle in enumerate(oracles):
            looks, weights = separate(oracle, x * 3 + 7, y, xv, yv, 0.01, loss=true or loss)
            told = list(run.curves[run.curves["model"] == number]["loss"])
            for value, (_, expected, _) in zip(told, looks, strict=True):
                self.assertAlmostEqual(value, expected, delta=1e-9)
            best = min(range(3), key=lambda i: looks[i][1])
            for name, tensor in run.models[number].state_dict().items():
                torch.testing.assert_close(tensor.double(), weights[best][name].double())

    def test_layers_in_evaluation_form_stay_so(self):
        def made(kind, seed, *arguments):
            torch.manual_seed(seed)
            return kind(*arguments)

        oracles = [made(Frozen, seed) for seed in range(2)]
        self.check_plain(Frozen, oracles, seeds=2)  # by its own train(), which nobody called
        self.check_plain([made(Frozen, seed) for seed in range(2)], [made(Frozen, seed) for seed in range(2)])
        one = made(Frozen, 0)
        self.check_plain(one, [made(Frozen, 0)], n=2)
        self.assertTrue(one.layer.training)  # the module given stays as it is
        self.check_plain(lambda: one, [made(Frozen, 0)], n=1)
        self.assertTrue(one.layer.training)
        self.check_plain(ByEval, [made(Frozen, seed) for seed in range(2)], seeds=2)
        self.check_plain(WithMode, [made(Frozen, 0)], seeds=1)

        def decays(net):  # looks at the network's own weights
            return lambda output, target: F.cross_entropy(output, target) + 0.1 * net.out.weight.square().sum()

        oracle = made(Frozen, 0)
        self.check_plain(one, [oracle], loss=decays(one), true=decays(oracle), n=1)
        for layer in (lambda: nn.BatchNorm1d(5), lambda: nn.Dropout(0.5)):  # the only layer of two forms
            models = [made(WithNorm, seed, layer) for seed in range(2)]
            for model in models:
                model.layer.eval()
            self.check_plain(models, [made(Frozen, seed, layer) for seed in range(2)])

    def test_a_parametrised_network_and_a_function_as_loss(self):
        """Its class refuses to be copied by pickling."""
        def made(seed):
            torch.manual_seed(seed)
            return nn.utils.parametrizations.weight_norm(nn.Linear(5, 3))

        def loss(output, target):
            return F.cross_entropy(output, target, label_smoothing=0.1)

        self.check_plain([made(0), made(1)], [made(0), made(1)], loss=loss)

    def test_a_graph_module_and_a_function_as_loss(self):
        """Its copies have the forward of its graph."""
        def made(seed):
            torch.manual_seed(seed)
            return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Dropout(0), nn.Linear(7, 3))

        def loss(output, target):
            return F.cross_entropy(output, target, label_smoothing=0.1)

        self.check_plain([torch.fx.symbolic_trace(made(seed)) for seed in range(2)], [made(0), made(1)], loss=loss)
        x, y = rows()
        exported = torch.export.export(made(0), (x.float(),)).module()
        with self.assertRaisesRegex(nw.Error, r"\[train\] network: got a GraphModule with a train\(\) of its own, and a function on its "
                                    "outputs, expected one with a forward for training and evaluation; try a loss by name, or the class"):
            self.train(exported, data=(x, y), validation=0.25, n=1, loss=loss)

    def check_heads(self, training, evaluation, pick, loss, **options):
        """`pick`: of forward's result the loss, in PyTorch."""
        (x, y), (xv, yv) = rows(), rows(31, seed=4)
        run = self.train(lambda: Heads(training, evaluation), data=(x, y), validation=(xv, yv), lr=0.01, epochs=3, batch=16, seeds=2,
                         order="sequential", dtype="f64", check=0, loss=loss, **options)
        for seed in range(2):
            torch.manual_seed(seed)
            model = Heads(training, evaluation).double()
            step = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.01)
            for value in list(run.curves[run.curves["model"] == seed]["loss"]):
                model.train()
                for begin in range(0, len(x), 16):
                    step.zero_grad()
                    pick(model(x[begin:begin + 16]), y[begin:begin + 16]).mean().backward()
                    step.step()
                with torch.no_grad():
                    self.assertAlmostEqual(value, pick(model.eval()(xv), yv).mean().item(), delta=1e-9)
        return run

    def test_forms_of_different_results(self):
        def of_any(result, target):
            result = [result] if torch.is_tensor(result) else list(result.values() if isinstance(result, dict) else result)
            losses = [F.cross_entropy(one, target, reduction="none") for one in result if one.dim() == 2]
            return sum(losses) / len(losses)

        def named(name):
            return lambda result, target: F.cross_entropy(result if torch.is_tensor(result) else result[name], target)

        def first(a, b, c):
            return a

        def sure(a, b, c):
            return a, a.softmax(1).amax(1)

        forms = [
            (lambda a, b, c: {"out": a, "aux": b}, lambda a, b, c: {"out": a}),
            (lambda a, b, c: (a, b, c), first),
            (first, sure),
            (lambda a, b, c: {"aux": b, "out": a}, lambda a, b, c: {"out": a, "probs": a.softmax(1)})]
        for training, evaluation in forms[:3]:
            run = self.check_heads(training, evaluation, of_any, of_any)
            best, (xv, _) = run.best(1), rows(31, seed=4)
            told = best.models[0].double()(xv)
            told = told if torch.is_tensor(told) else told["out"] if isinstance(told, dict) else told[0]
            torch.testing.assert_close(best.predict(xv).double(), told.detach())
        run = self.check_heads(*forms[2], of_any, of_any, metrics={"sure": lambda output, target: output[1].mean()})
        for value, model in zip(run.table["sure"], run.models):
            self.assertAlmostEqual(value, model.double()(rows(31, seed=4)[0])[1].mean().item(), delta=1e-9)
        self.check_heads(*forms[3], named("out"), "cross_entropy", output="out")
        self.check_heads(*forms[0], named("out"), "cross_entropy", output="out")
        for pair in forms[1:3]:
            self.check_heads(*pair, named(0), "cross_entropy")
        def none_last(a, b, c):
            return a, None

        def all_of(result, target):
            return sum(F.cross_entropy(one, target, reduction="none") for one in result if one is not None)

        two, none_first = (lambda a, b, c: (a, b)), (lambda a, b, c: (None, a))
        for pair in ((two, none_last), (lambda a, b, c: (None, a, b), none_first)):
            self.check_heads(*pair, lambda result, target: F.cross_entropy(next(r for r in result if r is not None), target),
                             "cross_entropy")
        for pair in ((two, none_last), (none_last, none_last)):
            self.check_heads(*pair, all_of, all_of)
        with self.assertRaises(nw.Error) as caught:
            self.check_heads(two, two, all_of, lambda output, target: 0.0)
        self.assertEqual(str(caught.exception), "[train] loss: got no tensor from <lambda>, expected one number, or one a row, as a "
                         "tensor; try to compute it of the output")
        for words, options in (
                ("output: got out in training form and probs in evaluation form, expected one result of both forms; try output='out'",
                 {"output": 1}),
                ("output: got none, expected one of forward's results in evaluation form: out, probs; try output='out'", {"output": "none"}),
                ("metrics: got min:output.1 of a forward whose results in training and in evaluation form differ, expected the same results "
                 "in both; try output= and metrics of it", {"metrics": ["min:output.1"]})):
            with self.assertRaises(nw.Error) as caught:
                self.check_heads(*forms[3], named("out"), "cross_entropy", **options)
            self.assertEqual(str(caught.exception), f"[train] {words}")


def greedy(score, answers, k):
    """The choice spelt out: the model that makes the mean answer's loss least, k times; the best length of these."""
    picks, best = [], (float("inf"), 0)
    for count in range(1, k + 1):
        losses = [score(torch.stack([answers[i] for i in [*picks, j]]).mean(0)).item() for j in range(len(answers))]
        picks.append(min(range(len(answers)), key=losses.__getitem__))
        best = min(best, (min(losses), count))
    return picks[:best[1]]


class Ensembles(Folder):
    def chosen(self, loss, outputs, y, yv, answer, score, **options):
        torch.manual_seed(1)
        run = self.train(lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, outputs)), data=(self.x, y),
                       validation=(self.xv, yv), loss=loss, lr=[3e-3, 1e-2, 3e-2, 0.1], seeds=2, epochs=4, **options)
        with torch.no_grad():
            answers = [answer(m.double()(self.xv.double())) for m in run.models]
        picks, found = greedy(score, answers, 5), run.ensemble(5)
        self.assertEqual(dict(zip(found.indices, found.weights)), {i: picks.count(i) / len(picks) for i in picks}, loss)

    def test_they_minimise_the_loss_of_the_run(self):
        g = torch.Generator().manual_seed(1)
        self.x, self.xv = torch.randn(150, 4, generator=g), torch.randn(40, 4, generator=g)

        def value(x):
            return x[:, :1] * 3 + x[:, 1:2] ** 3 * 2

        def classes(x):
            return (x[:, 0] * 2).round().clamp(-1, 1).long() + 1

        y, yv = classes(self.x), classes(self.xv)
        for keys, own in (("ignore_index=0", {"ignore_index": 0}), ("label_smoothing=0.4", {"label_smoothing": 0.4}),
                          ("weight=1,20,1", {"weight": torch.tensor([1.0, 20.0, 1.0]).double()})):
            self.chosen(f"cross_entropy:{keys}", 3, y, yv, lambda o: o.softmax(-1),
                        lambda p, own=own: F.cross_entropy(p.log(), yv, **own))
        balance = torch.tensor([1.0, 20.0, 1.0])  # float32, beside answers in float64
        self.chosen(nn.CrossEntropyLoss(balance), 3, y, yv, lambda o: o, lambda o: F.cross_entropy(o, yv, balance.double()), dtype="f64")
        self.chosen("huber:delta=0.1", 1, value(self.x), value(self.xv), lambda o: o,
                    lambda p: F.huber_loss(p, value(self.xv).double(), delta=0.1))
        yv = (value(self.xv) > 2).double()
        self.chosen("bce_with_logits:pos_weight=9", 1, (value(self.x) > 2).float(), yv.float(), torch.sigmoid,
                    lambda p: F.binary_cross_entropy_with_logits(torch.logit(p), yv, pos_weight=torch.tensor(9.0)))


if __name__ == "__main__":
    unittest.main()
