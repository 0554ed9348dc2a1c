"""What `nw.train` takes as data, losses and metrics: each against separate modules in PyTorch."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import copy  # noqa: E402
import math  # noqa: E402
import unittest  # noqa: E402
from unittest import mock  # noqa: E402

import numpy  # noqa: E402
import pandas  # noqa: E402
import sklearn.metrics  # noqa: E402
import torch  # noqa: E402
from separate_runs import Net, Runs, rows, separate, start  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.data import TensorDataset  # noqa: E402

import nwide as nw  # noqa: E402

PLAIN = {"epochs": 2, "batch": 16, "order": "sequential", "dtype": "f64", "check": 0, "lr": 0.01, "seeds": 2}


class Mixed(nn.Module):
    """Numbers and a category."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(3, 2)
        self.linear = nn.Linear(4, 1)

    def forward(self, numbers, city):
        return self.linear(torch.cat([numbers, self.embed(city[:, 0])], 1)).squeeze(1)


class Says(nn.Module):
    """Another program in training than in evaluation."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 3)

    def forward(self, x):
        if self.training:
            x = 2 * x
        return self.a(x)


class Named(nn.Module):
    """Arguments that are taken by name alone."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 3)

    def forward(self, x, *, shift=None, scale):
        return self.a(x) * scale[:, None]


class Frozen(nn.Module):
    """A frozen part of another dtype in front of what is trained."""

    def __init__(self, dtype):
        super().__init__()
        self.body, self.dtype = nn.Linear(5, 6).to(dtype).requires_grad_(False), dtype
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x.to(self.dtype))).float())


class Narrow(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8), nn.Tanh()).to(dtype).requires_grad_(False)
        self.head, self.dtype = nn.Linear(8, 3), dtype

    def forward(self, x):
        return self.head(self.body(x.to(self.dtype)).float())


class Times(nn.Module):
    """Takes float64 itself, beside what is float32."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 1)

    def forward(self, x, t):
        return self.a(torch.cat([x, (t - 1.7e9).float()], 1))


class Elsewhere(torch.Tensor):
    """Stands for a tensor on a GPU: so are all made of it, but by `cpu`."""

    def cpu(self):
        with torch._C.DisableTorchFunctionSubclass():
            return self.as_subclass(torch.Tensor)


class Moves(nn.Module):
    """With a buffer on another device than the CPU, which stands for a GPU."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 3)
        self.register_buffer("ones", torch.ones(3, device="meta"))

    def _apply(self, function, recurse=True):
        self.ones = torch.ones(3)
        return super()._apply(function, recurse)

    def forward(self, x):
        return self.a(x) * self.ones


class Chooses(nn.Module):
    """Arguments that are left out in the middle; computes its own loss."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 3)

    def forward(self, x, mask=None, scale=None, labels=None):
        output = self.a(x if mask is None else x * mask)
        return {"loss": F.cross_entropy(output * scale[:, None], labels), "logits": output}


class Several(nn.Module):
    """Mean and logarithm of a variance, as a structure that `pack` makes, and numbers that are not of rows."""

    def __init__(self, pack):
        super().__init__()
        self.a, self.mean, self.spread, self.pack = nn.Linear(5, 6), nn.Linear(6, 1), nn.Linear(6, 1), pack

    def forward(self, x):
        hidden = torch.tanh(self.a(x))
        return self.pack(self.mean(hidden)[:, 0], self.spread(hidden)[:, 0], self.a.weight.square().sum())


def people(count=40, seed=0):
    random = numpy.random.default_rng(seed)
    city = random.choice(["Bonn", "Oslo", "Rome"], count)
    frame = pandas.DataFrame({"age": random.normal(size=count), "city": city, "income": random.normal(size=count)})
    frame["price"] = frame["age"] * 0.5 + (frame["city"] == "Rome") + 0.1 * random.normal(size=count)
    return frame


class Checked(Runs):
    def check(self, run, make, inputs, target, loss=F.cross_entropy, **options):
        """Training losses of each model against a loop of its own."""
        for i, row in run.table.iterrows():
            x, y = (t[i] if isinstance(t, list) else t for t in (inputs, target))
            model = make(row["seed"]).double()
            step = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.01)
            for epoch in range(2):
                losses = []
                for begin in range(0, len(y), 16):
                    step.zero_grad()
                    part = [t[begin:begin + 16] for t in (x if isinstance(x, tuple) else (x,))]
                    value = loss(model.train()(*part), y[begin:begin + 16])
                    value.backward()
                    step.step()
                    losses.append(value.item())
                own = run.curves[run.curves["model"] == i]["train_loss"].iloc[epoch]
                self.assertAlmostEqual(own, sum(losses) / len(losses), delta=1e-9)


class Data(Checked):
    def test_arrays_dicts_and_datasets(self):
        x, y = rows()
        for name, data, options in (
                ("arrays", (x.numpy(), y.numpy()), {}),
                ("columns", {"x": x, "label": y}, {}),
                ("others", {"images": x, "label": y, "more": y}, {"column": {"x": "images"}, "target": "label"}),
                ("dataset", TensorDataset(x, y), {})):
            run = self.train(Net, data=data, save=name, **PLAIN, **options)
            self.check(run, start, x, y)

    def test_own_rows(self):
        pairs = [rows(seed=s) for s in (1, 2)]
        run = self.train(Net, data=pairs, **PLAIN)
        self.check(run, start, [x for x, _ in pairs], [y for _, y in pairs])
        xv, yv = rows(31, seed=4)
        x, y = rows()
        own = [torch.randint(53, (53,), generator=torch.Generator().manual_seed(s)) for s in (1, 2)]
        options = {name: value for name, value in PLAIN.items() if name != "seeds"}
        run = self.train(Net, data=(x, y), rows=own, validation=(xv, yv), save="bags", **options)
        self.check(run, start, [x[i] for i in own], [y[i] for i in own])
        for model, loss in zip(run.models, run.table["loss"]):
            with torch.no_grad():
                self.assertAlmostEqual(F.cross_entropy(model.double()(xv), yv).item(), loss, delta=1e-9)

    def test_frames(self):
        frame = people()
        columns = {"numbers": ["age", "income"], "city": ["city"]}

        def make(seed):
            torch.manual_seed(seed)
            return Mixed()

        run = self.train(Mixed, data=frame, target="price", column=columns, validation=people(20, 1), loss="mse", **PLAIN)
        numbers = torch.tensor(frame[["age", "income"]].to_numpy())
        codes = torch.tensor(frame["city"].map({"Bonn": 0, "Oslo": 1, "Rome": 2}).to_numpy())[:, None]
        price = torch.tensor(frame["price"].to_numpy())
        self.check(run, make, (numbers, codes), price, F.mse_loss)
        for model, answer in zip(run.models, run.best(2).predict(frame.drop(columns="price"), reduce="none")[numpy.argsort(run.best(2).indices)]):
            with torch.no_grad():
                self.assertLess((model.double()(numbers, codes) - answer).abs().max().item(), 1e-9)
        again = nw.open_run(self.path("run"), Mixed)
        self.assertLess((again.best(1).predict(frame) - run.best(1).predict(frame)).abs().max().item(), 1e-12)
        odd = frame.assign(city="Paris")
        self.refused("[data] column city: got 'Paris' in row 0, expected one of the 3 categories of the training data; try 'Bonn'",
                     lambda: run.best(1).predict(odd))

    def test_one_frame_of_features(self):
        frame = people().rename(columns={"price": "y"})
        frame["y"] = numpy.where(frame["y"] > 0, "high", "low")

        def make(seed):
            torch.manual_seed(seed)
            return nn.Linear(3, 2)

        run = self.train(lambda: nn.Linear(3, 2), data=(frame[["age", "city", "income"]], frame["y"]), **PLAIN)
        x = torch.tensor(frame[["age", "city", "income"]].replace({"Bonn": 0, "Oslo": 1, "Rome": 2}).to_numpy(dtype="float64"))
        frame["age"] = frame["age"].astype("Float64")  # with a mask of gaps
        self.train(lambda: nn.Linear(3, 2), data=(frame[["age", "city", "income"]], frame["y"]), save="gaps", **PLAIN)
        self.check(run, make, x, torch.tensor((frame["y"] == "low").to_numpy().astype("int64")))

    def test_large_numbers_of_a_frame(self):
        """float32 would round them to steps of 1/16, and the whole numbers to multiples of 8."""
        x, y = rows()
        frame = pandas.DataFrame({"at": 1e6 + x[:, 0].numpy(), "short": x[:, 1].numpy().astype("float32"),
                                  "id": 2**26 + torch.arange(53).numpy(), "y": y.numpy()})
        seen = torch.tensor(frame[["at", "short", "id"]].to_numpy(dtype="float64"))
        mean, std = seen.mean(0), seen.std(0, correction=0)

        def make(seed):
            torch.manual_seed(seed)
            return nn.Linear(3, 3)

        run = self.train(lambda: nn.Linear(3, 3), data=frame, target="y", normalize={"input": "standard"}, validation=frame, **PLAIN)
        self.check(run, make, (seen - mean) / std, y)
        with torch.no_grad():
            answers = torch.stack([run.models[i].double()((seen - mean) / std) for i in run.best(2).indices])
        self.assertLess((run.best(2).predict(frame, reduce="none", apply="none") - answers).abs().max().item(), 1e-9)

    def test_program_that_asks_for_its_form(self):
        x, y = rows()
        run = self.train(Says, data=(x, y), validation=(x, y), **PLAIN)

        def make(seed):
            torch.manual_seed(seed)
            return Says()

        self.check(run, make, x, y)
        for model, loss in zip(run.models, run.table["loss"]):
            with torch.no_grad():
                self.assertAlmostEqual(F.cross_entropy(model.double()(x), y).item(), loss, delta=1e-9)


    def test_arguments_by_name_alone(self):
        x, y = rows()
        scale = torch.rand(53, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

        def make(seed):
            torch.manual_seed(seed)
            return Named()

        def loss(output, target):
            return F.cross_entropy(output, target)

        for how in ("cross_entropy", loss):
            run = self.train(Named, data={"scale": scale, "y": y, "x": x}, loss=how, target="y", overwrite=True, **PLAIN)
            self.check(run, lambda seed: ByName(make(seed)), (x, scale), y)
            with torch.no_grad():
                answers = torch.stack([model.double()(x, scale=scale) for model in run.models])
            said = run.parts[0].predict({"scale": scale, "x": x}, apply="none")
            self.assertLess((said - answers).abs().max().item(), 1e-9)

    def check_plainly(self, run, make, inputs, target, loss):
        """Losses of the last epoch, and predictions, against a loop in the dtypes that the modules have."""
        for i, row in run.table.iterrows():
            model = make(row["seed"])
            step = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=row["lr"])
            for _ in range(3):
                losses = []
                for begin in range(0, len(target), 16):
                    step.zero_grad()
                    value = loss(model(*(x[begin:begin + 16] for x in inputs)), target[begin:begin + 16])
                    value.backward()
                    step.step()
                    losses.append(value.item())
            self.assertAlmostEqual(row["train_loss"], sum(losses) / len(losses), delta=2e-5)
            with torch.no_grad():
                of_one_dtype = len({p.dtype for p in model.parameters()}) == 1  # the command predicts with no others
                told = run.parts[0].predict(inputs, apply="none")[i] if of_one_dtype else run.models[i](*inputs)
                self.assertLess((told - model(*inputs)).abs().max().item(), 1e-4)

    def test_frozen_parts_of_another_dtype(self):
        x, y = rows()
        for dtype in (torch.float16, torch.float64):
            def make(seed, dtype=dtype):
                torch.manual_seed(seed)
                return Frozen(dtype)

            run = self.train(lambda dtype=dtype: Frozen(dtype), data=(x.float(), y), loss="cross_entropy", optimizer="sgd", lr=[0.1, 0.3],
                             order="sequential", batch=16, epochs=3, check=0, overwrite=True)
            self.check_plainly(run, make, (x.float(),), y, F.cross_entropy)

    def test_the_check_allows_what_narrow_frozen_parts_round(self):
        """Separate models in float16 differ from float64 as the wide program does."""
        for dtype in (torch.float16, torch.bfloat16):
            run = self.train(lambda dtype=dtype: Narrow(dtype), data=(torch.randn(53, 8), torch.randn(53, 3)), loss="mse", lr=[0.01, 0.1],
                             seeds=16, epochs=3, check=8, batch=16, overwrite=True)
            self.assertTrue(any("no more than rounding does to separate models" in note for note in run.notes), run.notes)

    def test_forward_that_takes_float64(self):
        """Of NumPy's float64 the network sees float32 where its operators want that, and float64 where forward does."""
        x, _ = rows()
        t = 1.7e9 + 4 * torch.rand(53, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        y = (x[:, :1] + t - 1.7e9).float()

        def make(seed):
            torch.manual_seed(seed)
            return Times()

        def loss(output, target):
            return F.mse_loss(output, target)

        for how in ("mse", loss):
            run = self.train(Times, data=(x.numpy(), t.numpy(), y), loss=how, optimizer="sgd", lr=[0.03, 0.1], order="sequential", batch=16,
                             epochs=3, overwrite=True)
            self.check_plainly(run, make, (x.float(), t), y, F.mse_loss)

    def test_tensors_of_another_device(self):
        (x, y), real, seen = rows(), torch.export.export, []

        def watched(model, arguments, named, **options):
            seen.extend(map(type, (*arguments, *named.values())))
            return real(model, arguments, named, **options)

        def loss(output, target):
            return F.cross_entropy(output, target)

        with mock.patch("torch.export.export", watched):
            run = self.train(Net, data=(x.as_subclass(Elsewhere), y.as_subclass(Elsewhere)), loss=loss, **PLAIN)
        self.check(run, start, x, y)
        self.assertEqual(set(seen), {torch.Tensor})
        there = Moves()
        run = self.train(there, data=(x, y), save="moves", **PLAIN)
        self.check(run, lambda seed: copy.deepcopy(there).to("cpu"), x, y)
        self.assertEqual(there.ones.device.type, "meta")

    def test_unsigned_numbers(self):
        x, y = rows()
        codes = torch.arange(53) % 3
        for of in (numpy.uint16, numpy.uint32, numpy.uint64):
            class Codes(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.embed, self.linear = nn.Embedding(3, 2), nn.Linear(7, 3)

                def forward(self, x, code):
                    return self.linear(torch.cat([x, self.embed(code)], 1))

            def make(seed, of=Codes):
                torch.manual_seed(seed)
                return of()

            run = self.train(Codes, data=(x, codes.numpy().astype(of), y.numpy().astype(of)), overwrite=True, **PLAIN)
            self.check(run, make, (x, codes), y)
        big = numpy.full(53, 2**63, dtype=numpy.uint64)
        self.refused("[data] x: got numbers of 2^63 or more, expected those that int64 has; try float64",
                     lambda: self.train(Net, data=(big, y), save="big", **PLAIN))

    def test_evaluations_without_steps(self):
        """A model whose batch has no weight makes no step before the evaluation after it."""
        x, y = rows(64)
        weight = torch.ones(64)
        weight[:32] = 0
        run = self.train(Net, data=(x, y), sample_weight=weight, validation={"x": x, "y": y, "sample_weight": torch.ones(64)},
                         eval_every=1, order="sequential", batch=32, epochs=1, lr=0.01, seeds=2)
        self.assertEqual(run.report["history"][0]["train_loss"], [None, None])
        self.assertEqual(run.curves[["model", "step"]].to_numpy().tolist(), [[0, 1], [1, 1], [0, 2], [1, 2]])
        self.assertEqual(run.curves["loss"].tolist(), [loss for look in run.report["history"] for loss in look["loss"]])

    def test_arguments_left_out(self):
        x, y = rows()
        scale = torch.rand(53, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        run = self.train(Chooses, data={"labels": y, "scale": scale, "x": x}, loss="output.0", output=1, **PLAIN)

        def make(seed):
            torch.manual_seed(seed)
            return Chooses()

        self.check(run, lambda seed: Twin(make(seed)), (x, scale), y, lambda loss, labels: loss(labels))


class ByName(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, scale):
        return self.model(x, scale=scale)


class Twin(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, scale):
        return lambda labels: self.model(x, scale=scale, labels=labels)["loss"]


class Functions(Checked):
    def test_loss(self):
        x, y = rows()

        def smooth(output, target):
            return F.cross_entropy(output, target, label_smoothing=0.2) + 0.01 * output.square().mean()

        xv, yv = rows(31, seed=4)
        run = self.train(Net, data=(x, y), validation=(xv, yv), loss=smooth, **PLAIN)
        self.check(run, start, x, y, smooth)
        for model, loss in zip(run.models, run.table["loss"]):
            with torch.no_grad():
                self.assertAlmostEqual(smooth(model.double()(xv), yv).item(), loss, delta=1e-9)
        with torch.no_grad():
            outputs = torch.stack([run.models[i].double()(xv) for i in run.best(2).indices])
        self.assertLess((run.best(2).predict(xv, reduce="none") - outputs).abs().max().item(), 1e-9)

    def test_loss_of_all_columns(self):
        x, y = rows()
        (xv, yv), mask = rows(31, seed=4), (x > 0.3).double()

        def hidden(output, batch):  # what a masked autoencoder learns; a module of 5 in and 3 out stands for one
            return ((output - batch["x"][:, :3]).square() * batch["mask"][:, :3]).sum() / batch["mask"][:, :3].sum()

        def twin(output, both):
            return hidden(output, {"x": both[:, :5], "mask": both[:, 5:]})

        data = {"mask": mask, "x": x, "other name": y}
        run = self.train(Net, data=data, loss=hidden, validation={**data, "x": x + 0.1}, **PLAIN)
        self.check(run, start, x, torch.cat([x, mask], 1), twin)
        self.assertEqual(run.report["data"]["columns"]["target"], [])
        with torch.no_grad():
            outputs = torch.stack([run.models[i].double()(xv) for i in run.best(2).indices])
        self.assertLess((run.best(2).predict(xv, reduce="none") - outputs).abs().max().item(), 1e-9)
        self.assertLess((run.best(2).predict({"x": xv}, reduce="none") - outputs).abs().max().item(), 1e-9)
        run = self.train(Net, data=(x, y), loss=lambda output, batch: F.cross_entropy(output, batch["y"]), save="pair", **PLAIN)
        self.check(run, start, x, y)
        run = self.train(Net, data=x, loss=lambda output, batch: (output - batch["x"][:, 2:]).square().mean(), save="alone", **PLAIN)
        self.check(run, start, x, x[:, 2:], lambda output, target: (output - target).square().mean())
        frame = people()

        def of_people(output, batch):
            return ((output - batch["price"]) ** 2 * (1 + batch["numbers"][:, 0] ** 2)).mean() + 0 * batch["city"].sum()

        run = self.train(Mixed, data=frame, target="price", column={"numbers": ["age", "income"], "city": ["city"]}, loss=of_people,
                         save="frame", **PLAIN)
        numbers = torch.tensor(frame[["age", "income"]].to_numpy())
        codes = torch.tensor(frame["city"].map({"Bonn": 0, "Oslo": 1, "Rome": 2}).to_numpy())[:, None]

        def make(seed):
            torch.manual_seed(seed)
            return Mixed()

        self.check(run, make, (numbers, codes), torch.stack([torch.tensor(frame["price"].to_numpy()), numbers[:, 0]], 1),
                   lambda output, both: ((output - both[:, 0]) ** 2 * (1 + both[:, 1] ** 2)).mean())

    def test_metrics(self):
        x, y = rows()
        xv, yv = rows(31, seed=4)

        def mcc(output, target):
            return sklearn.metrics.matthews_corrcoef(target, output.argmax(1))

        run = self.train(Net, data=(x, y), validation=(xv, yv), metrics={"mcc": mcc}, **PLAIN)
        for model, value in zip(run.models, run.table["mcc"]):
            with torch.no_grad():
                self.assertAlmostEqual(mcc(model.double()(xv), yv), value, delta=1e-12)
        self.assertEqual(list(nw.open_run(self.path("run")).table["mcc"]), list(run.table["mcc"]))
        again = nw.open_run(self.path("run")).resume(epochs=3, quiet=True)
        self.assertNotIn("mcc", again.table)
        self.assertIn("mcc is a function of Python: the steps since 8 were made without it", again.notes)
        run.resume(epochs=4, quiet=True)
        for model, value in zip(run.models, run.table["mcc"]):
            with torch.no_grad():
                self.assertAlmostEqual(mcc(model.double()(xv), yv), value, delta=1e-12)

    def test_metrics_beside_a_loss(self):
        (x, y), (xv, yv) = rows(), rows(31, seed=4)
        run = self.train(Net, data=(x, y), validation=(xv, yv), loss=lambda output, target: F.cross_entropy(output, target),
                         metrics={"right": lambda output, target: float((output.argmax(1) == target).sum())}, **PLAIN)
        for model, value in zip(run.models, run.table["right"]):
            with torch.no_grad():
                self.assertEqual((model.double()(xv).argmax(1) == yv).sum().item(), value)

    def test_of_several_targets(self):
        """Joined as the command joins them: real numbers side by side, whole ones beside them as float64."""
        (x, count), (xv, cv) = rows(), rows(31, seed=4)
        data, held = ({"x": x, "a": x[:, 0] ** 2, "b": x[:, 1].abs(), "count": c} for x, c in ((x, count), (xv, cv)))
        seen = torch.stack([held["a"], held["b"], held["count"].double()], 1)
        run = self.train(Net, data=data, validation=held, target=["a", "b", "count"], loss="mse", lr=[0.1, 0.01], seeds=2, epochs=2,
                         metrics={"most": lambda output, target: (output - target).abs().max()}, dtype="f64")
        with torch.no_grad():
            answers = [model(xv) for model in run.models]
        for answer, row in zip(answers, run.table.itertuples()):
            self.assertAlmostEqual(row.most, (answer - seen).abs().max().item(), delta=1e-9)
            self.assertAlmostEqual(row.loss, F.mse_loss(answer, seen).item(), delta=1e-9)
        self.assertEqual(run.ensemble(1).indices, [min(range(4), key=lambda i: F.mse_loss(answers[i], seen).item())])

    def test_of_several_results(self):
        """Losses, metrics and ensembles get forward's whole result, as PyTorch's loop would give it to them."""
        (x, _), (xv, _) = rows(), rows(31, seed=4)
        x, xv = x * 3 + 1, xv * 3 + 1
        y, yv = x[:, 0] + x[:, 1] ** 2, xv[:, 0] + xv[:, 1] ** 2
        xn = (xv - x.mean(0)) / x.std(0, correction=0)
        for pack, parts in ((lambda m, s, p: (m, s), lambda o: (o[0], o[1])), (lambda m, s, p: {"own": p, "of": [m, s]}, lambda o: o["of"])):
            def loss(output, target, parts=parts):
                mean, spread = parts(output)
                return (0.5 * ((target - mean) ** 2 / spread.exp() + spread)).mean()

            def error(output, target, parts=parts):
                return (parts(output)[0] - target).square().mean() + parts(output)[1].mean()

            run = self.train(lambda pack=pack: Several(pack), data=(x, y), validation=(xv, yv), loss=loss, metrics={"error": error}, epochs=6,
                             batch=16, dtype="f64", check=0, lr=[0.1, 0.01], seeds=2, normalize={"x": "standard"}, overwrite=True)
            with torch.no_grad():
                answers = [model(xn) for model in run.models]
                for i, row in run.table.iterrows():
                    self.assertAlmostEqual(row["error"], error(answers[i], yv).item(), delta=1e-9)
                    self.assertAlmostEqual(row["loss"], loss(answers[i], yv).item(), delta=1e-9)
            picks, losses = [], []
            for _ in range(4):
                means = [[torch.stack([parts(answers[j])[k] for j in [*picks, i]]).mean(0) for k in (0, 1)] for i in range(4)]
                tried = [loss(pack(*both, torch.tensor(0.0)), yv).item() for both in means]
                picks.append(min(range(4), key=tried.__getitem__))
                losses.append(min(tried))
            picks = picks[:losses.index(min(losses)) + 1]
            found = run.ensemble(4)
            self.assertEqual(dict(zip(found.indices, found.weights)), {i: picks.count(i) / len(picks) for i in picks})
        self.refused("[train] keep: got it with functions as metrics= of several results, expected a checkpoint of each model; try leaving "
                     "keep= out", lambda: self.train(lambda: Several(pack), data=(x, y), validation=(xv, yv), loss=loss,
                                                     metrics={"error": error}, keep=1, seeds=2, lr=0.1, save="kept"))
        with_numbers = self.train(lambda: Several(lambda m, s, p: (m, s, m > 0)), data=(x, y), validation=(xv, yv), seeds=2, lr=0.1,
                                  epochs=1, loss=lambda output, target: (output[0] - target).square().mean(), save="numbers")
        self.refused("[ensemble] loss: got a function of results with torch.bool among them, expected tensors of real numbers, which have "
                     "means; try run.best(8)", lambda: with_numbers.ensemble(2))

    def test_split_by_the_command(self):
        x, y = rows()
        run = self.train(Net, data=(x, y), validation=0.25, metrics={"rows": lambda output, target: len(target)}, **PLAIN)
        held = numpy.load(self.path("run/split.npz"))["validation"]
        self.assertEqual(list(run.table["rows"]), [len(held)] * 2)
        for i, row in run.table.iterrows():
            learn = [r for r in range(len(y)) if r not in set(held)]
            looks, _ = separate(start(row["seed"]), x[learn], y[learn], x[held], y[held], 0.01, epochs=2)
            self.assertAlmostEqual(row["loss"], min(look[1] for look in looks), delta=1e-9)

    def test_folds_and_groups(self):
        x, y = rows()
        group = torch.arange(53) // 4
        run = self.train(Net, data=(x, y), folds=3, group=group, epochs=1, drop_last=True, seeds=2, lr=0.01)
        self.assertEqual(list(run.table["fold"]), [0, 1, 2, 0, 1, 2])
        folds = numpy.load(self.path("run/oof.npz"))["fold"]
        for g in group.unique():
            self.assertEqual(len(set(folds[group == g])), 1)
        self.assertFalse(any(math.isnan(v) for v in run.table["loss"]))


if __name__ == "__main__":
    unittest.main()
