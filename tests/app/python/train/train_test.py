"""`nw.train`: every number against a loop of separate modules in PyTorch."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import functools  # noqa: E402
import unittest  # noqa: E402

import numpy  # noqa: E402
import torch  # noqa: E402
from separate_runs import Net, Runs, rows, separate, start  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.utils import parametrizations  # noqa: E402

import nwide as nw  # noqa: E402
from nwide.training import Selection, tensor_files  # noqa: E402
from nwide.training.scores import MeanLoss, greedy, log_probabilities  # noqa: E402


class Small(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, outputs))

    def forward(self, x):
        return self.layers(x)


class Numbers(Runs):
    def test_every_number_of_the_table(self):
        x, y = rows()
        xv, yv = rows(31, seed=4)
        run = self.train(Net, data=(x, y), validation=(xv, yv), loss="cross_entropy", lr=[3e-3, 1e-2, 0.3], seeds=2, seed=5,
                         epochs=6, batch=16, order="sequential", metrics=["accuracy"], dtype="f64", check=0)
        table, curves = run.table, run.curves
        self.assertEqual(list(table["lr"]), [3e-3, 3e-3, 1e-2, 1e-2, 0.3, 0.3])
        self.assertEqual(list(table["seed"]), [5, 6, 7, 8, 9, 10])
        self.assertEqual(list(table["status"]), ["trained"] * 6)
        for i, row in table.iterrows():
            looks, weights = separate(start(row["seed"]), x, y, xv, yv, row["lr"], epochs=6)
            own = curves[curves["model"] == i]
            for epoch, (train_loss, loss, accuracy) in enumerate(looks):
                self.assertAlmostEqual(own["train_loss"].iloc[epoch], train_loss, delta=1e-9)
                self.assertAlmostEqual(own["loss"].iloc[epoch], loss, delta=1e-9)
                self.assertAlmostEqual(own["accuracy"].iloc[epoch], accuracy, delta=1e-12)
            best = min(range(6), key=lambda e: looks[e][1])
            self.assertAlmostEqual(row["loss"], looks[best][1], delta=1e-9)
            self.assertAlmostEqual(row["accuracy"], looks[best][2], delta=1e-12)
            self.assertEqual(row["best_step"], 4 * (best + 1))
            model = run.models[i]
            self.assertIsInstance(model, Net)
            self.assertFalse(model.training)
            for name, value in model.state_dict().items():
                self.assertLess((value.double() - weights[best][name].double()).abs().max().item(), 1e-7, name)
        self.assertTrue((table["best_step"] < table["step"]).any())
        self.check_by(run, table)
        self.check_predictions(run, table, xv, yv)

    def check_by(self, run, table):
        by = run.by("lr")
        self.assertEqual(sorted(by["lr"]), [3e-3, 1e-2, 0.3])
        self.assertEqual(list(by["loss"]), sorted(by["loss"]))
        for _, row in by.iterrows():
            own = table[table["lr"] == row["lr"]]
            self.assertEqual(row["n"], 2)
            for metric in ("loss", "accuracy"):
                self.assertAlmostEqual(row[metric], own[metric].mean(), delta=1e-12)
                self.assertAlmostEqual(row[f"{metric}.sd"], own[metric].std(), delta=1e-12)
                self.assertEqual([row[f"{metric}.low"], row[f"{metric}.high"]], sorted(own[metric]))

    def check_predictions(self, run, table, xv, yv):
        with torch.no_grad():
            each = torch.stack([m.double()(xv).softmax(1) for m in run.models])
        order = sorted(range(6), key=lambda i: table["loss"][i])
        best = run.best(4)
        self.assertEqual(best.indices, order[:4])
        self.assertLess((best.predict(xv) - each[order[:4]].mean(0)).abs().max().item(), 1e-9)
        self.assertLess((best.predict(xv.numpy(), reduce="none") - each[order[:4]]).abs().max().item(), 1e-9)
        picks, losses = [], []
        for _ in range(4):
            options = [F.nll_loss(each[[*picks, i]].mean(0).log(), yv).item() for i in range(6)]
            picks.append(min(range(6), key=options.__getitem__))
            losses.append(min(options))
        picks = picks[:losses.index(min(losses)) + 1]
        ensemble = run.ensemble(4)
        self.assertEqual({i: w for i, w in zip(ensemble.indices, ensemble.weights)},
                         {i: picks.count(i) / len(picks) for i in picks})
        self.assertLess((ensemble.predict(xv) - each[picks].mean(0)).abs().max().item(), 1e-9)
        uneven = Selection(run.best(3)._places, run.best(3).indices, [0.5, 0.3, 0.2])
        mean = torch.einsum("n,n...->...", torch.tensor(uneven.weights, dtype=torch.float64), each[uneven.indices])
        self.assertLess((uneven.predict(xv) - mean).abs().max().item(), 1e-9)

    def test_changes_that_autograd_does_not_see(self):
        x, y = rows()
        for hidden in (lambda h: h.detach().mul_(0.5), lambda h: h.data[:, 1:3].clamp_(min=0), torch.no_grad()(torch.Tensor.relu_)):
            class Changing(Net):
                def forward(self, x, hidden=hidden):
                    h = self.a(x)
                    hidden(h)
                    near = F.cosine_similarity(h, self.b.weight[:1], dim=1)  # changes its norms so too
                    return self.b(torch.tanh(self.norm(h))) * near[:, None]

            run = self.train(Changing, data=(x, y), validation=(x, y), lr=[0.03, 0.1], seeds=2, epochs=3, batch=16,
                             order="sequential", dtype="f64", save="run", overwrite=True)
            for i, row in run.table.iterrows():
                torch.manual_seed(int(row["seed"]))
                looks, _ = separate(Changing(), x, y, x, y, row["lr"])
                own = run.curves[run.curves["model"] == i]
                for epoch, (train_loss, loss, _) in enumerate(looks):
                    self.assertAlmostEqual(own["train_loss"].iloc[epoch], train_loss, delta=1e-9)
                    self.assertAlmostEqual(own["loss"].iloc[epoch], loss, delta=1e-9)

    def test_parametrizations(self):
        """Those of torch.nn.utils: spectral_norm iterates in training alone, and writes its vectors through `out=`."""
        x, y = rows()
        xv, yv = rows(31, 4)

        def made(how, seed):
            torch.manual_seed(seed)
            return nn.Sequential(how(nn.Linear(5, 8)), nn.Tanh(), how(nn.Linear(8, 3))).double()

        for how in (parametrizations.spectral_norm, parametrizations.weight_norm, parametrizations.orthogonal):
            run = self.train([made(how, seed) for seed in range(2)], data=(x, y), validation=(xv, yv), lr=[0.01, 0.03], epochs=3, batch=16,
                             order="sequential", overwrite=True, dtype=torch.float64)
            for i, lr in enumerate((0.01, 0.03)):
                looks, _ = separate(made(how, i), x, y, xv, yv, lr)
                own = run.curves[run.curves["model"] == i]
                for epoch, (train_loss, loss, _) in enumerate(looks):
                    self.assertAlmostEqual(own["train_loss"].iloc[epoch], train_loss, delta=1e-9)
                    self.assertAlmostEqual(own["loss"].iloc[epoch], loss, delta=1e-9)

    def test_side_by_side_and_ranges(self):
        x, y = rows()
        run = self.train(Net, nw.zip(lr=[1e-3, 1e-2], weight_decay=[0.1, 0]), data=(x, y), seed_init=[3, 4], epochs=1,
                         batch=20, order="sequential", drop_last=True, dtype="f64", check=0)
        table = run.table
        self.assertEqual(list(table["lr"]), [1e-3, 1e-3, 1e-2, 1e-2])
        self.assertEqual(list(table["weight_decay"]), [0.1, 0.1, 0, 0])
        self.assertEqual(list(table["seed.init"]), [3, 4, 3, 4])
        for _, row in table.iterrows():
            looks, _ = separate(start(row["seed.init"]), x[:40], y[:40], x, y, row["lr"], row["weight_decay"], 1, 20)
            self.assertAlmostEqual(row["train_loss"], looks[0][0], delta=1e-9)
        run = self.train(Net, data=(x, y), lr=nw.log(1e-4, 1e-1), n=3, epochs=1, save="log")
        self.assertEqual([f"{lr:.6g}" for lr in run.table["lr"]], ["0.0001", "0.00316228", "0.1"])
        run = self.train(Net, data=(x, y), lr=nw.loguniform(1e-4, 1e-1, 2), seeds=2, epochs=1, save="drawn")
        self.assertEqual(len(set(run.table["lr"])), 2)

    def test_numbers_of_numpy_and_torch(self):
        """They are the same options as Python's numbers."""
        tables = []
        for save, real, whole, truth in (("own", float, int, bool), ("numpy", numpy.float32, numpy.int64, numpy.bool_),
                                         ("torch", torch.tensor, torch.tensor, torch.tensor)):
            run = self.train(Net, data=rows(), lr=real(0.0625), seeds=whole(2), seed=whole(3), epochs=whole(2), batch=[whole(8), whole(16)],
                             validation=real(0.25), patience=whole(5), exact=truth(True), drop_last=truth(False), save=save,
                             net={"width": whole(4)}, momentum=real(0.5), optimizer="sgd")
            self.assertEqual(nw.open_run(self.path(save), Net).models[1].a.out_features, 4)
            tables.append(run.table.to_dict())
        self.assertEqual(tables[1:], tables[:1] * 2)
        self.assertEqual(nw.log(numpy.float32(0.25), torch.tensor(0.5), numpy.int64(3)), nw.log(0.25, 0.5, 3))

    def test_seeds_that_are_a_list(self):
        x, y = rows()
        run = self.train(Net, data=(x, y), lr=[1e-3, 1e-2], seed=[3, 9, 4], weight_decay=[0, 0.1, 0.5], epochs=1, batch=20,
                         order="sequential", dtype="f64", check=0)
        self.assertEqual(sorted(zip(run.table["lr"], run.table["weight_decay"], run.table["seed"])),
                         [(lr, decay, seed) for lr in (1e-3, 1e-2) for decay in (0, 0.1, 0.5) for seed in (3, 4, 9)])
        for _, row in run.table.iterrows():
            looks, _ = separate(start(row["seed"]), x, y, x, y, row["lr"], row["weight_decay"], 1, 20)
            self.assertAlmostEqual(row["train_loss"], looks[0][0], delta=1e-9)

    def test_names_of_folders(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.path(""))
        for models, name in ((Net, "Net"), (lambda: Net(), "models"), (functools.partial(Net, width=4), "models-2")):
            save = {"save": f"runs/{name}"} if name == "models-2" else {}
            run = nw.train(models, data=rows(), seeds=2, epochs=1, quiet=True, no_store=True, **save)
            self.assertEqual((run.report["run"]["name"], os.path.exists(f"runs/{name}/report.json")), (name.partition("-")[0], True))

    def test_weights_and_what_they_lack(self):
        x, y = rows()
        backbone = {name: value for name, value in start(40).state_dict().items() if not name.startswith("b.")}
        torch.save(backbone, self.path("backbone.pt"))
        tensor_files.save(self.path("wide.safetensors"), {**backbone, "b.weight": torch.zeros(9, 7), "more": torch.zeros(2)})
        options = {"data": (x, y), "epochs": 1, "batch": 53, "order": "sequential", "dtype": "f64", "check": 0}
        for name, weights, note in (
                ("state", backbone, "2 tensors that weights= has not are each model's own: b.weight, b.bias"),
                ("file", self.path("backbone.pt"), "2 tensors that weights= has not are each model's own: b.weight, b.bias"),
                ("wide", self.path("wide.safetensors"), "2 tensors that weights= has not are each model's own: b.weight, b.bias; 2 of "
                                                        "weights= are left out: b.weight, more")):
            run = self.train(Net, lr=0.01, seeds=2, weights=weights, init_missing="fresh", save=name, **options)
            self.assertIn(note, run.notes)
            for seed in range(2):
                model = start(seed)
                model.load_state_dict(backbone, strict=False)
                looks, after = separate(model, x, y, x, y, 0.01, epochs=1, batch=53)
                self.assertAlmostEqual(run.table["train_loss"][seed], looks[0][0], delta=1e-9)
                for key, value in run.models[seed].state_dict().items():
                    self.assertLess((value.double() - after[0][key].double()).abs().max().item(), 1e-9, key)
        whole = [start(seed).state_dict() for seed in (5, 6, 7)]
        run = self.train(Net, lr=0.01, weights=whole, save="each", **options)
        one = self.train(Net(), lr=[0.01, 0.02], weights=whole[1], save="one", **options)
        for i, seed in enumerate((5, 6, 7)):
            expected = separate(start(seed), x, y, x, y, 0.01, epochs=1, batch=53)[0][0][0]
            self.assertAlmostEqual(run.table["train_loss"][i], expected, delta=1e-9)
            if seed == 6:
                self.assertAlmostEqual(one.table["train_loss"][0], expected, delta=1e-9)
        os.makedirs(self.path("many"))
        for number, seed in ((10, 7), (2, 6), (0, 5)):
            torch.save(start(seed).state_dict(), self.path(f"many/model-{number}.pt"))
        several = self.train(Net, lr=0.01, weights=self.path("many"), save="folder", **options)
        for got, expected in zip(several.table["train_loss"], run.table["train_loss"], strict=True):
            self.assertAlmostEqual(got, expected, delta=1e-9)
        os.makedirs(self.path("none"))
        for words, more in (
                ("[train] weights b.weight: got none, expected (3, 7); try init_missing='fresh', which leaves it as __init__ makes it",
                 {"weights": backbone}),
                ("[train] weights more: got (1,), expected none of this name; try the weights of this network",
                 {"weights": {**whole[0], "more": torch.zeros(1)}}),
                ("[train] weights: got 1 tensors of other names, expected some of the network's 9; try a state_dict with a.weight",
                 {"weights": {"more": torch.zeros(1)}, "init_missing": "fresh"}),
                ("[train] weights: got Tensor, expected a state_dict or its file; try weights=net.state_dict(), or sample_weight=",
                 {"weights": torch.zeros(53)}),
                ("[train] init_missing: got it without weights=, expected weights that lack something; try weights='backbone.pt'",
                 {"init_missing": "fresh"}),
                ("[train] init_missing: got 'file', expected 'fresh', of each model's own __init__; try init_missing='fresh'",
                 {"weights": backbone, "init_missing": "file"}),
                ("[train] weights none: got a folder without checkpoints, expected a file of a state_dict for each model; try the folder last/ "
                 "of a run", {"weights": self.path("none")}),
                ("[train] weights each: got a run's folder, expected the folder of its checkpoints; try weights='each/last'",
                 {"weights": self.path("each")}),
                ("[train] models: got 3 checkpoints, expected 2, as many as the other arguments make; try as many of each",
                 {"weights": whole, "seeds": 2})):
            self.refused(words, lambda: self.train(Net, lr=0.01, save="no", **{"seeds": 2, **options, **more}))

    def test_longer_under_a_schedule(self):
        """It ends with the run: a new one begins where the first ended."""
        (x, y), options = rows(), {"batch": 16, "order": "sequential", "dtype": "f64", "check": 0, "lr": 0.01, "n": 2}
        run = self.train(Net, data=(x, y), validation=(x, y), epochs=2, schedule="cosine", **options)
        last = self.path("run/last")
        self.refused("[--resume] epochs: got another length, expected the one that the cosine schedule ends with; try a new run with "
                     "weights='run/last'", lambda: run.resume(epochs=4))
        again = self.train(Net, data=(x, y), validation=(x, y), epochs=1, weights=last, save="again", **options)
        for number, value in enumerate(again.table["loss"]):
            model = start(0)
            model.load_state_dict(tensor_files.load(f"{last}/model-{number:04d}.safetensors"))
            looks, _ = separate(model, x, y, x, y, 0.01, epochs=1)
            self.assertAlmostEqual(value, looks[0][1], delta=1e-9)

    def test_float64_beside_float32(self):
        """A model of several dtypes comes back in them."""
        class Both(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(5, 3).double(), nn.Linear(3, 3).requires_grad_(False)
                self.register_buffer("scale", torch.full((3,), 1 / 3))

            def forward(self, x):
                return self.a(x) + (self.b(self.a(x).float()) * self.scale).double()

        x, y = rows()
        run = self.train(Both, data=(x, y), validation=(x, y), lr=[0.1, 0.01], epochs=2)
        for i, model in enumerate(run.models):
            kinds = {name: tensor.dtype for name, tensor in model.state_dict().items()}
            self.assertEqual(kinds, {name: tensor.dtype for name, tensor in Both().state_dict().items()})
            with torch.no_grad():
                self.assertAlmostEqual(F.cross_entropy(model(x), y).item(), run.table["loss"][i], delta=1e-6)

    def test_what_takes_no_gradient_stays(self):
        def frozen():
            model = Net()
            model.a.weight.requires_grad_(False)
            return model

        run = self.train(frozen, data=rows(), lr=0.1, seeds=2, epochs=2)
        self.assertEqual(run.report["frozen"], ["a.weight"])
        for seed, model in enumerate(run.models):
            self.assertTrue(torch.equal(model.a.weight, start(seed).a.weight))
            self.assertFalse(torch.equal(model.b.weight, start(seed).b.weight))
        self.refused("[train] a.weight of model 1: got torch.float32 (7, 5) without gradient, expected torch.float32 (7, 5) as in model "
                     "0; try models of one architecture", lambda: self.train([Net(), frozen()], data=rows(), lr=[0.1, 0.2], save="two"))

    def test_greedy_selection(self):
        generator = torch.Generator().manual_seed(2)
        y = torch.randint(4, (60,), generator=generator)
        noise = torch.randn(9, 60, 4, generator=generator)
        for loss, outputs, targets, score in (
                ("cross_entropy", F.one_hot(y, 4) + noise, y, lambda p, y: F.nll_loss(p.double().log(), y)),
                ("mse", y[:, None] + noise, y[:, None].expand(60, 4).float(), lambda p, y: F.mse_loss(p.double(), y.double()))):
            logs = log_probabilities(loss, outputs.double())
            answers = outputs if logs is None else logs.exp()
            picks, losses = [], []
            for _ in range(6):
                tried = [score(answers[[*picks, i]].double().mean(0), targets).item() for i in range(9)]
                picks.append(min(range(9), key=tried.__getitem__))
                losses.append(min(tried))
            self.assertGreater(losses.index(min(losses)), 1)
            given = (outputs.double(), 6) if logs is None else (logs, 6, True)
            self.assertEqual(greedy(MeanLoss(loss, targets), *given), picks[:losses.index(min(losses)) + 1])
        self.refused("[ensemble] models: got 2 without a finite loss, expected one with a finite loss; try a smaller lr",
                     lambda: greedy(MeanLoss("mse", torch.zeros(4, 1)), torch.full((2, 4, 1), torch.nan), 2))

    def test_selection_among_confident_models(self):
        """Wrong rows by logits whose probabilities are 0 or 1 as float32: greedy selection by losses in float64."""
        ids = torch.arange(6)
        labels, classes = torch.tensor([0, 1, 1, 1, 0, 0.0])[:, None], torch.tensor([0, 1, 2, 0, 1, 2])
        sure = [[20, 9, 9, 9, -9, -9], [1, -9, -9, -9, -3, -3], [25, 9, 9, 9, -9, -9.0]]
        wrong = [[0, 140, 0], [120, 0, 0], [0, 130, 0]]

        def of_classes(row, each):
            return torch.cat([torch.tensor([row]), 9.0 * F.one_hot(classes[1:], 3)]) * each

        for loss, targets, values, score in (
                ("bce_with_logits", labels, [torch.tensor(row).float()[:, None] for row in sure], lambda z: -(
                    labels * z.sigmoid().mean(0).log() + (1 - labels) * (-z).sigmoid().mean(0).log()).mean()),
                ("cross_entropy", classes, [of_classes(row, 1.0) for row in wrong], lambda z: F.nll_loss(
                    z.softmax(2).mean(0).log(), classes)),
                # Also float64 has no probability so small: model 1 alone has the least loss.
                ("cross_entropy", classes, [of_classes(row, 10.0) for row in wrong], lambda z: F.cross_entropy(z.mean(0), classes))):
            with self.subTest(loss=loss):
                models = [nn.Embedding.from_pretrained(value, freeze=False) for value in values]
                run = self.train(models, data=(ids, targets), validation=(ids, targets), loss=loss, lr=1e-12, epochs=1, overwrite=True)
                logits = torch.stack(values).double()
                picks, losses = [], []
                for _ in range(1 if values[0].max() > 100 else 4):
                    tried = [score(logits[[*picks, i]]).item() for i in range(3)]
                    picks.append(min(range(3), key=tried.__getitem__))
                    losses.append(min(tried))
                picks = picks[:losses.index(min(losses)) + 1]
                found = run.ensemble(len(losses))
                self.assertEqual(dict(zip(found.indices, found.weights)), {i: picks.count(i) / len(picks) for i in picks})
                self.assertEqual(run.ensemble(1).indices, run.best(1).indices)

    def test_selection_by_the_runs_own_loss(self):
        """With its parameters and the validation rows' weights, each against PyTorch's loss of means of the separate models."""
        generator = torch.Generator().manual_seed(1)
        (x, xv), w, wv = (torch.randn(count, 5, generator=generator) for count in (150, 40)), *(
            torch.rand(count, generator=generator).double() ** 4 for count in (150, 40))
        number, big, three = (lambda x: x[:, :1] * 3 + x[:, 1:2] ** 3 * 2), (lambda x: (number(x) > 2).float()), (
            lambda x: (x[:, 0] * 2).round().clamp(-1, 1).long() + 1)
        balanced = 150 / (3 * torch.bincount(three(x)).double())

        def weighted(each):
            return (each.view(40, -1).mean(1) * wv).sum() / wv.sum()

        def cauchy(output, target):
            return torch.log1p((output - target) ** 2).mean(1)

        def of_batch(output, batch):
            return (output - batch["y"]).abs().mean() * batch["x"].std()

        def constant(output, target):
            return ((output - target) @ torch.full((1, 1), 3.0)).square().mean()  # PyTorch multiplies no float64 with it

        names, functions = ("x", "y", "w"), {"cauchy": cauchy, "of_batch": of_batch, "constant": constant}
        for loss, target, weights, score in (
                ("huber:delta=0.1", number, False, lambda p, y: F.huber_loss(p, y, delta=0.1)),
                ("mse", number, True, lambda p, y: weighted((p - y) ** 2)),
                ("cross_entropy:weight=1,20,1", three, False, lambda p, y: F.nll_loss(p.log(), y, weight=torch.tensor([1.0, 20, 1]).double())),
                ("cross_entropy:weight=balanced", three, False, lambda p, y: F.nll_loss(p.log(), y, weight=balanced)),
                ("cross_entropy:ignore_index=0", three, False, lambda p, y: F.nll_loss(p.log(), y, ignore_index=0)),
                ("cross_entropy:label_smoothing=0.4:weight=1,2,5:ignore_index=2", three, False, lambda p, y: F.cross_entropy(
                    p.log(), y, label_smoothing=0.4, weight=torch.tensor([1.0, 2, 5]).double(), ignore_index=2)),
                ("bce_with_logits:pos_weight=9", big, False, lambda p, y: F.binary_cross_entropy_with_logits(
                    p.logit(), y, pos_weight=torch.tensor(9.0).double())),
                ("cauchy", number, True, lambda p, y: weighted(cauchy(p, y))),
                ("constant", number, False, lambda p, y: (3 * (p - y)).square().mean()),
                ("of_batch", number, False, lambda p, y: (p - y).abs().mean())):
            with self.subTest(loss=loss):
                data, held = (dict(zip(names[:2 + weights], row)) for row in ((x, target(x), w), (xv, target(xv), wv)))
                options = {"sample_weight": "w"} if weights else {}
                run = self.train(functools.partial(Small, 3 if target is three else 1), data=data, validation=held, target="y",
                                 loss=functions.get(loss, loss), lr=[3e-3, 1e-2, 3e-2, 0.1], seeds=2, epochs=4, overwrite=True, **options)
                y = target(xv).double() if target(xv).is_floating_point() else target(xv)
                with torch.no_grad():
                    each = torch.stack([model.double()(xv.double()) for model in run.models])
                each = each.softmax(2) if target is three else each.sigmoid() if target is big else each
                picks, losses = [], []
                for _ in range(5):
                    tried = [score(each[[*picks, i]].mean(0), y).item() for i in range(8)]
                    picks.append(min(range(8), key=tried.__getitem__))
                    losses.append(min(tried))
                picks = picks[:losses.index(min(losses)) + 1]
                found = run.ensemble(5)
                self.assertEqual(dict(zip(found.indices, found.weights)), {i: picks.count(i) / len(picks) for i in picks})
        with self.assertRaisesRegex(nw.Error, r"^\[ensemble\] loss: got output\.1, expected one of .* or a function in the process that "
                                              r"trained; try run\.best\(8\)$"):
            nw.open_run(self.path("run")).ensemble(2)
        run = self.train(functools.partial(Small, 1), data=(x, number(x)), validation=0.2, loss=["mse", "l1"], lr=0.01, seeds=2, epochs=1, save="two")
        with self.assertRaisesRegex(nw.Error, r"^\[ensemble\] loss: got mse, l1 in 2 runs, expected one loss that all models learn by; try "):
            run.ensemble(2)

    def test_programs_one_after_the_other(self):
        x, y = rows()
        run = self.train(Net, data=(x, y), validation=0.25, batch=[8, 16], net={"width": [4, 7]}, lr=0.01, seeds=2,
                         epochs=2,
                         order="sequential", dtype="f64", check=0)
        table = run.table
        self.assertEqual(len(run.parts), 4)
        self.assertEqual(list(table["batch"]), [8] * 4 + [16] * 4)
        self.assertEqual(list(table["net.width"]), [4, 4, 7, 7] * 2)
        split = numpy.load(self.path("run/0/split.npz"))
        for i, row in table.iterrows():
            learn, held = split["train"], split["validation"]
            looks, _ = separate(start(row["seed"], width=row["net.width"]), x[learn], y[learn], x[held], y[held], 0.01, epochs=2,
                                batch=row["batch"])
            self.assertAlmostEqual(row["loss"], min(look[1] for look in looks), delta=1e-9)
            self.assertEqual(run.models[i].a.out_features, row["net.width"])
        by = run.by("batch")
        self.assertAlmostEqual(by.set_index("batch")["loss"][8], table[table["batch"] == 8]["loss"].mean(), delta=1e-12)
        again = nw.open_run(self.path("run"), Net)
        self.assertEqual(again.table.to_dict(), table.to_dict())
        self.assertLess((again.best(3).predict(x) - run.best(3).predict(x)).abs().max().item(), 1e-12)
        self.assertEqual(again.models[2].a.out_features, 7)

    def test_several_losses(self):
        """Each in rows of its own, though all their values are a metric `loss`."""
        x, _ = rows()
        xv, _ = rows(31, seed=4)
        y, yv = x[:, :3] ** 2, xv[:, :3] ** 2

        def times(k):
            def loss(output, target):
                return k * F.mse_loss(output, target)
            return loss

        def huber(output, target):
            return F.huber_loss(output, target, delta=0.3)

        for given, said, of in ((["mse", "l1", "huber:delta=0.3"], ["mse", "l1", "huber:delta=0.3"], [F.mse_loss, F.l1_loss, huber]),
                                ([times(1), times(10), "mse"], ["loss 0", "loss 1", "mse"], [times(1), times(10), F.mse_loss])):
            run = self.train(Net, data=(x, y), validation=(xv, yv), loss=given, lr=[0.01, 0.1], seeds=2, epochs=1, dtype="f64", overwrite=True)
            self.assertEqual(list(run.table["chosen.loss"]), [word for word in said for _ in range(4)])
            with torch.no_grad():
                values = [of[i // 4](model(xv), yv).item() for i, model in enumerate(run.models)]
            for value, told in zip(values, run.table["loss"]):
                self.assertAlmostEqual(value, told, delta=1e-9)
            by = run.by("loss").set_index("chosen.loss")
            self.assertEqual(sorted(by.index), sorted(said))
            for i, word in enumerate(said):
                self.assertEqual(by["n"][word], 4)
                self.assertAlmostEqual(by["loss"][word], sum(values[4 * i:4 * i + 4]) / 4, delta=1e-9)
            advice = "metrics=['r2'], monitor='r2'" if "l1" in said else "run.models by a column of run.table"
            again = nw.open_run(self.path("run"), Net)
            for one in (run, again):
                self.refused(f"[best] monitor: got loss, of {', '.join(said)}, expected values that can be compared; try {advice}", one.best)
            self.assertEqual(again.table.to_dict(), run.table.to_dict())
        run = self.train(Net, data=(x, y), validation=(xv, yv), loss=["mse", "l1"], lr=0.1, seeds=2, metrics=["r2"], monitor="r2", save="r2")
        self.assertEqual(run.best(1).indices, [int(run.table["r2"].argmax())])

    def test_lists_of_modules_and_one_for_all(self):
        x, y = rows()
        models = [start(seed) for seed in (11, 4, 7)]
        kept = [{k: v.clone() for k, v in m.state_dict().items()} for m in models]
        run = self.train(models, data=(x, y), lr=[1e-3, 1e-2, 0.1], epochs=1, batch=53, order="sequential", dtype="f64",
                         check=0)
        for i, (model, lr) in enumerate(zip(models, (1e-3, 1e-2, 0.1))):
            self.assertTrue(all(torch.equal(v, kept[i][k]) for k, v in model.state_dict().items()))
            looks, _ = separate(start((11, 4, 7)[i]), x, y, x, y, lr, epochs=1, batch=53)
            self.assertAlmostEqual(run.table["train_loss"][i], looks[0][0], delta=1e-9)
        run = self.train(models[1], data=(x, y), lr=[1e-3, 1e-2], epochs=1, batch=53, order="sequential", dtype="f64",
                         check=0, save="one")
        expected = separate(start(4), x, y, x, y, 0.1, epochs=1, batch=53)[0][0][0]
        self.assertTrue(all(abs(loss - expected) < 1e-9 for loss in run.table["train_loss"]))
        other = start(3, width=4)
        self.refused("[train] a of model 1: got in_features=5, out_features=4, bias=True, expected in_features=5, out_features=7, "
                     "bias=True as in model 0; try models of one architecture", lambda: self.train([models[0], other], data=(x, y), lr=[1e-3, 1e-2], save="two"))
        self.refused("[train] models: got 3 modules, expected 2, as many as the other arguments make; "
                     "try as many of each", lambda: self.train(models, data=(x, y), lr=[1e-3, 1e-2], save="two"))


if __name__ == "__main__":
    unittest.main()
