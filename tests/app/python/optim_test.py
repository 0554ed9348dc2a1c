"""Each model's own loss, clipping and optimiser, against PyTorch's of separate models in double precision."""

import package

package.enter()

import copy  # noqa: E402
import io  # noqa: E402
import pickle  # noqa: E402
import unittest  # noqa: E402
import warnings  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import clip_grad_norm_, clip_grads_with_norm_  # noqa: E402
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook  # noqa: E402
from torch.optim.swa_utils import AveragedModel, update_bn  # noqa: E402

import nwide as nw  # noqa: E402

N = 5
OPTIONS = nw.Options(tune=False, threads=1)


def net(i):
    torch.manual_seed(i)
    return nn.Sequential(nn.Linear(6, 11), nn.Tanh(), nn.Linear(11, 4)).double()


def twins():
    models = [net(i) for i in range(N)]
    return models, nw.compile(copy.deepcopy(models), options=OPTIONS)


def batch(seed):
    torch.manual_seed(100 + seed)
    return torch.randn(N, 7, 6).double(), torch.randint(0, 4, (N, 7))


class Lion(torch.optim.Optimizer):
    """By the paper's algorithm 2."""

    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                (b1, b2), g = group["betas"], p.grad
                c = b1 * m + (1 - b1) * g
                p.sub_(group["lr"] * (c.sign() + group["weight_decay"] * p))
                m.copy_(b2 * m + (1 - b2) * g)


LR = [0.003, 0.01, 0.03, 0.1, 0.2]
CASES = {
    "sgd": (nw.optim.SGD, torch.optim.SGD, {"lr": LR, "momentum": 0.9, "weight_decay": [0, 0.1, 0.01, 0, 0.2]}),
    "sgd plain": (nw.optim.SGD, torch.optim.SGD, {"lr": LR}),
    "nesterov": (nw.optim.SGD, torch.optim.SGD, {"lr": LR, "momentum": [0.5, 0.9, 0.8, 0.7, 0.3], "nesterov": True}),
    "adam": (nw.optim.Adam, torch.optim.Adam, {"lr": LR, "betas": ([0.9, 0.8, 0.95, 0.5, 0.9], 0.99), "weight_decay": 0.1}),
    "adamw": (nw.optim.AdamW, torch.optim.AdamW, {"lr": torch.tensor(LR), "eps": [1e-8, 1e-6, 1e-8, 1e-4, 1e-8]}),
    "rmsprop": (nw.optim.RMSprop, torch.optim.RMSprop, {"lr": LR, "alpha": [0.9, 0.99, 0.8, 0.7, 0.5], "momentum": 0.3}),
    "lion": (nw.optim.Lion, Lion, {"lr": LR, "betas": (0.9, 0.98), "weight_decay": [0, 0.1, 0.2, 0, 0.3]}),
}


def of_model(value, i):
    if isinstance(value, tuple):
        return tuple(of_model(v, i) for v in value)
    if isinstance(value, torch.Tensor):
        return value[i].item()
    return value[i] if isinstance(value, list) else value


class Optim(unittest.TestCase):
    def same_weights(self, wide, models, most=1e-9):
        for name, p in wide.named_parameters():
            for i, model in enumerate(models):
                own = model.get_parameter(name)
                self.assertLess(float((p[i] - own).detach().abs().max() / own.detach().abs().max()), most, f"{name} of model {i}")

    def test_every_optimiser(self):
        for name, (ours, theirs, values) in CASES.items():
            with self.subTest(name):
                models, wide = twins()
                optimizer = ours(wide, **values)
                own = [theirs(m.parameters(), **{k: of_model(v, i) for k, v in values.items()}) for i, m in enumerate(models)]
                gamma = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (optimizer, *own)]
                for step in range(6):
                    x, y = batch(step)
                    optimizer.zero_grad()
                    nw.per_model(F.cross_entropy)(wide(x), y).sum().backward()
                    for i, (model, other) in enumerate(zip(models, own)):
                        other.zero_grad()
                        F.cross_entropy(model(x[i]), y[i]).backward()
                    for each in (optimizer, *own, *gamma):
                        each.step()
                    self.same_weights(wide, models)
                self.assertEqual([round(v, 12) for v in optimizer.param_groups[0]["lr"]],
                                 [round(o.param_groups[0]["lr"], 12) for o in own])

    def test_states_are_saved_and_loaded(self):
        _, wide = twins()
        x, y = batch(0)

        def step(module, optimizer):
            optimizer.zero_grad()
            nw.per_model(F.cross_entropy)(module(x), y).sum().backward()
            optimizer.step()

        optimizer = nw.optim.Adam(wide, lr=LR)
        step(wide, optimizer)
        other = copy.deepcopy(wide)
        again = nw.optim.Adam(other, lr=0.5)
        again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        step(wide, optimizer)
        step(other, again)
        for p, q in zip(wide.parameters(), other.parameters()):
            torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-12)

    def test_saved_states_are_loaded_by_default(self):
        """By torch.load with weights_only, which takes no class it does not know; those of schedulers too."""
        x, y = batch(0)
        models, _ = twins()
        made = []
        for _ in range(2):
            wide = nw.compile(copy.deepcopy(models), options=OPTIONS)
            optimizer = nw.optim.AdamW(wide, lr=LR, betas=([0.9, 0.8, 0.95, 0.5, 0.9], 0.99))
            made.append((wide, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)))

        def step(wide, optimizer, scheduler):
            optimizer.zero_grad()
            nw.per_model(F.cross_entropy)(wide(x), y).sum().backward()
            optimizer.step()
            scheduler.step()

        step(*made[0])
        file = io.BytesIO()
        torch.save([part.state_dict() for part in made[0]], file)
        file.seek(0)
        for part, state in zip(made[1], torch.load(file)):
            part.load_state_dict(state)
        for each in made:
            step(*each)
        for p, q in zip(*(wide.parameters() for wide, *_ in made)):
            torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-12)

    def test_states_of_torch(self):
        """Of the same name; with a switch that changes the step, refused."""
        _, wide = twins()
        x, y = batch(0)
        for switched in (False, True):
            theirs = torch.optim.AdamW(wide.parameters(), amsgrad=switched)
            nw.per_model(F.cross_entropy)(wide(x), y).sum().backward()
            theirs.step()
            ours = nw.optim.AdamW(wide)
            if switched:
                with self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] amsgrad: got a state made with it, expected"):
                    ours.load_state_dict(theirs.state_dict())
            else:
                ours.load_state_dict(theirs.state_dict())
                self.assertEqual(len(ours.state), len(theirs.state))

    def test_momentum_that_is_set_later(self):
        """Its first gradient is not dampened. A state of torch's optimiser, loaded before or after that, is gone on with."""
        for first in (0, 2, 5):
            models, wide = twins()
            every = [torch.optim.SGD(m.parameters(), lr=0.003, dampening=0.5) for m in (wide, *models)]
            for step, (x, _) in enumerate(map(batch, range(8))):
                if step == first:
                    state, every[0] = every[0].state_dict(), nw.optim.SGD(wide, lr=0.003, dampening=0.5)
                    every[0].load_state_dict(state)
                (wide(x).square().sum() + sum(m(own).square().sum() for m, own in zip(models, x))).backward()
                for each in every:
                    each.param_groups[0]["momentum"] = 0.9 * (step > 2)
                    each.step()
                    each.zero_grad()
                self.same_weights(wide, models)

    def test_switches_put_in_later(self):
        """Those of torch's optimisers that change the step are refused, before any parameter is stepped."""
        _, wide = twins()
        optimizer, before = nw.optim.AdamW(wide), [p.detach().clone() for p in wide.parameters()]
        nw.per_model(F.cross_entropy)(wide(batch(0)[0]), batch(0)[1]).sum().backward()
        optimizer.param_groups[-1]["maximize"] = True
        with self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] maximize: got True, expected a group without it; try torch.optim over"):
            optimizer.step()
        self.assertTrue(all(map(torch.equal, wide.parameters(), before)))

    def test_lists_put_in_place_of_a_number(self):
        """As at the beginning: one value for each model, in bounds."""
        lists, fixed = (nw.compile(models) for models in (twins()[0], twins()[0]))
        x, y = batch(0)
        one, other = nw.optim.Adam(lists), nw.optim.Adam(fixed, lr=LR)
        one.param_groups[0]["lr"] = list(LR)
        for wide, optimizer in ((lists, one), (fixed, other)):
            nw.per_model(F.cross_entropy)(wide(x), y).sum().backward()
            optimizer.step()
        for p, q in zip(lists.parameters(), fixed.parameters()):
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-9)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(one, 0.5)
        scheduler.step()
        self.assertEqual(list(one.param_groups[0]["lr"]), [lr * 0.5 for lr in LR])
        one.param_groups[0]["lr"] = list(LR) + [0.1]
        with self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] lr: got \d+ values, expected"):
            one.step()

    def test_numbers_of_numpy(self):
        """Become Python's, at the beginning and where a user puts them in place."""
        _, wide = twins()
        for kind in (np.float16, np.float32, np.float64, np.int64):
            optimizer = nw.optim.SGD(wide, lr=kind(1), momentum=0.5)
            self.assertIs(type(optimizer.param_groups[0]["lr"]), int if kind is np.int64 else float)
            optimizer.param_groups[0]["lr"] = kind(2)
            optimizer.step()
            self.assertEqual(optimizer.param_groups[0]["lr"], 2)
            with self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] lr: got -1"):
                nw.optim.SGD(wide, lr=kind(-1))
        self.assertEqual(nw.optim.SGD(wide, lr=np.array(LR)).param_groups[0]["lr"], nw.optim.PerModel(LR))

    def test_values_of_each_model_as_text(self):
        lr = nw.optim.SGD(twins()[1], lr=LR).param_groups[0]["lr"]
        self.assertEqual(f"{lr:.1e}", "[3.0e-03, 1.0e-02, 3.0e-02, 1.0e-01, 2.0e-01]")
        self.assertEqual(f"{lr}", f"PerModel({LR})")

    def test_numbers_put_in_place_are_in_bounds(self):
        """By users and by schedulers; where one is not, no group has stepped."""
        models, wide = twins()
        groups = [{"params": [p], "lr": lr} for p, lr in zip(wide.parameters(), (0.1, LR, 0.1, 0.2))]
        optimizer = nw.optim.SGD(wide, params=groups)
        x, y = batch(0)
        nw.per_model(F.cross_entropy)(wide(x), y).sum().backward()
        before = [p.detach().clone() for p in wide.parameters()]
        for key, wrong, said in (("lr", -1, "-1"), ("lr", float("nan"), "nan"), ("lr", torch.tensor(-0.5), "-0.5"),
                                 ("momentum", -0.25, "-0.25"), ("lr", nw.optim.PerModel([0.1] * 4 + [-1]), "-1.0"),
                                 ("lr", nw.optim.PerModel(LR[:3]), "3 values"), ("lr", "fast", "'fast'")):
            group = optimizer.param_groups[-1]
            right, group[key] = group[key], wrong
            with self.subTest(key=key, wrong=wrong), \
                    self.assertRaisesRegex(nw.Error, rf"^\[nw.optim\] {key}: got {said}, expected .*; try "):
                optimizer.step()
            group[key] = right
        for p, own in zip(wide.parameters(), before):
            torch.testing.assert_close(p, own, rtol=0, atol=0)
        falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step)
        for _ in range(2):  # the second at 0 times its rate
            optimizer.step()
            falling.step()
        with self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] lr: got -"):
            optimizer.step()

    def test_copies_know_whose_parameters_they_take(self):
        _, wide = twins()
        optimizer = nw.optim.Adam(wide, lr=LR, params=[wide.get_parameter("0.weight")])
        other, again = copy.deepcopy((wide, optimizer))
        again.add_param_group({"params": [other.get_parameter("2.weight")]})
        with self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] params: got .* that the wide module has not"):
            again.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})

    def test_groups(self):
        models, wide = twins()
        optimizer = nw.optim.SGD(wide, lr=0.1, params=[
            {"params": wide.get_submodule("0").parameters(), "lr": LR}, {"params": [wide.get_parameter("2.weight")]}])
        before = wide.get_parameter("2.bias").detach().clone()
        x, y = batch(0)
        nw.per_model(F.cross_entropy)(wide(x), y).sum().backward()
        optimizer.step()
        for i, model in enumerate(models):
            F.cross_entropy(model(x[i]), y[i]).backward()
            torch.optim.SGD([{"params": model[0].parameters(), "lr": LR[i]}, {"params": [model[2].weight]}], lr=0.1).step()
        self.same_weights(wide, models)
        torch.testing.assert_close(wide.get_parameter("2.bias"), before, rtol=0, atol=0)

    def test_each_model_is_clipped_by_its_own_norm(self):
        for most in (0.3, [0.1, 0.2, 1e9, 0.5, 0.4]):
            models, wide = twins()
            x, y = batch(1)
            nw.per_model(F.cross_entropy)(wide(x), y).sum().backward()
            norms = nw.clip_grad_norm_(wide, most)
            for i, model in enumerate(models):
                F.cross_entropy(model(x[i]), y[i]).backward()
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), of_model(most, i))
                self.assertAlmostEqual(float(norms[i]), float(norm), places=12)
                for name, p in wide.named_parameters():
                    torch.testing.assert_close(p.grad[i], model.get_parameter(name).grad)

    def test_norms_of_other_numbers_are_refused(self):
        _, wide = twins()
        wide(batch(0)[0]).sum().backward()
        for most, said in (([0.1, 0.2], r"\[2\]"), ([0.1], r"\[1\]"), ([[0.1] * N], rf"\[1, {N}\]")):
            with self.assertRaisesRegex(nw.Error, rf"^\[clip_grad_norm_\] max_norm: got numbers {said}, expected {N}, .*; try"):
                nw.clip_grad_norm_(wide, most)

    def test_clipping_where_models_share_a_backbone(self):
        """The heads by each model's own norm, the backbone by its one norm."""
        class Headed(nn.Module):
            def __init__(self, base, i):
                super().__init__()
                self.base, self.head = base, net(i)[2]

            def forward(self, x):
                return self.head(self.base(x).tanh())

        base = nn.Linear(6, 11).double()
        wide = nw.compile([Headed(base, i) for i in range(N)], options=OPTIONS)
        wide(batch(0)[0]).square().sum().backward()
        shared, own = ([p for name, p in wide.named_parameters() if name.startswith(part)] for part in ("base.", "head."))
        before = [p.grad.clone() for p in (*shared, *own)]
        for call in (lambda: nw.clip_grad_norm_(wide, 0.1), lambda: nw.clip_grad_norm_(wide, 0.1, params=iter(shared))):
            with self.assertRaisesRegex(nw.Error, r"^\[clip_grad_norm_\] base.weight: got one parameter .*; try torch.nn."):
                call()
        for parameters in (wide.parameters(), own, own[0]):
            with self.assertRaisesRegex(nw.Error, r"^\[torch.nn.utils.clip_grad_norm_\] .*; try nw.clip_grad_norm_"):
                clip_grad_norm_(parameters, 0.1)
        with self.assertRaisesRegex(nw.Error, r"^\[clip_grad_norm_\] params: got \(11, 6\) that the wide module has not"):
            nw.clip_grad_norm_(wide, 0.1, params=[nn.Parameter(torch.zeros(11, 6))])
        for p, gradient in zip((*shared, *own), before):
            torch.testing.assert_close(p.grad, gradient, rtol=0, atol=0)
        most = [0.1, 0.2, 1e9, 0.5, 0.4]
        norms, norm = nw.clip_grad_norm_(wide, most, params=own), clip_grad_norm_(shared, 0.3)
        twins = [[nn.Parameter(g) for g in (before[:2] if i is None else [g[i] for g in before[2:]])] for i in (None, *range(N))]
        for twin, bound, its, of in zip(twins, (0.3, *most), (norm, *norms), (None, *range(N))):
            for p in twin:
                p.grad = p.detach().clone()
            torch.testing.assert_close(its, clip_grad_norm_(twin, bound))
            for p, ours in zip(twin, shared if of is None else own):
                torch.testing.assert_close(ours.grad if of is None else ours.grad[of], p.grad)
        self.assertEqual(nw.clip_grad_norm_(wide, 1e9, params=own[1]).shape, (N,))

    def test_what_all_models_share_is_stepped_as_one_model_s(self):
        """Optimisers of torch.optim that mix what they get, and its clipping, have nothing to mix there."""
        def steps(module, loss):
            chosen = [p for p in module.parameters() if p.dim() == 2]
            made = (torch.optim.Adafactor(module.parameters()), torch.optim.Muon(chosen),
                    torch.optim.LBFGS(module.parameters(), max_iter=3))
            norms = []
            for optimizer in made:
                def closure(optimizer=optimizer):
                    optimizer.zero_grad()
                    value = loss()
                    value.backward()
                    norms.append(clip_grad_norm_(module.parameters(), 0.1))
                    return value
                optimizer.step(closure)
            return norms

        one, (x, _) = net(0), batch(0)
        wide = nw.compile(copy.deepcopy(one), n=N, share_weights=True, options=OPTIONS)
        norms = steps(wide, lambda: wide(x).square().mean()), steps(one, lambda: one(x).square().mean())
        torch.testing.assert_close(*norms)
        for name, p in wide.named_parameters():
            torch.testing.assert_close(p, one.get_parameter(name))

    def test_what_is_shared_out_to_threads(self):
        """Parameters of more numbers, and losses of more rows and classes, than one thread takes."""
        models = [nn.Linear(230, 211).double() for _ in range(3)]
        wide = nw.compile(copy.deepcopy(models), options=nw.Options(tune=False))
        rates = [0.01, 0.1, 0.3]
        optimizer = nw.optim.AdamW(wide, lr=rates)
        x, y, real = torch.randn(3, 170, 230).double(), torch.randint(0, 211, (3, 170)), torch.randn(3, 170, 211).double()
        (nw.per_model(F.cross_entropy)(wide(x), y) + nw.per_model(F.mse_loss)(wide(x), real)).sum().backward()
        optimizer.step()
        for i, (model, rate) in enumerate(zip(models, rates)):
            step = torch.optim.AdamW(model.parameters(), lr=rate)
            (F.cross_entropy(model(x[i]), y[i]) + F.mse_loss(model(x[i]), real[i])).backward()
            step.step()
            for name, p in wide.named_parameters():
                torch.testing.assert_close(p[i], model.get_parameter(name), rtol=1e-9, atol=1e-12)

    def test_copies_of_optimisers_go_on(self):
        x, y = batch(0)
        for made in (nw.optim.SGD, nw.optim.Adam, nw.optim.AdamW, nw.optim.RMSprop, nw.optim.Lion, nw.optim.Muon):
            _, wide = twins()
            chosen = [p for p in wide.parameters() if p.dim() == 3] if made is nw.optim.Muon else None
            optimizer = made(wide, lr=[0.01 * (i + 1) for i in range(N)], params=chosen)
            for copies in (copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))):
                pairs = [(wide, optimizer), copies((wide, optimizer))]
                for _ in range(2):
                    for module, its in pairs:
                        its.zero_grad()
                        nw.per_model(F.cross_entropy)(module(x), y).sum().backward()
                        its.step()
                for p, q in zip(*(module.parameters() for module, _ in pairs)):
                    self.assertIsNot(p, q)
                    torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-12, msg=str((made, copies)))

    def test_hooks_and_the_profiler_see_each_step(self):
        """As they see PyTorch's own optimiser's, put in between steps, with a closure or without; none remains."""
        x, y = batch(0)
        seen = []

        def run(module, loss, optimizer):
            def closure():
                optimizer.zero_grad()
                loss(module(x), y).sum().backward()
                return 3.5
            optimizer.step(closure)
            note = [lambda _, args, kwargs, who=who: seen.append((who, len(args), sorted(kwargs))) for who in range(4)]
            for hook, register in zip(note, (optimizer.register_step_pre_hook, optimizer.register_step_post_hook,
                                             register_optimizer_step_pre_hook, register_optimizer_step_post_hook)):
                handle = register(hook)
                self.assertEqual(optimizer.step(closure), 3.5)
                self.assertEqual(optimizer.step(closure=closure), 3.5)
                optimizer.step()
                handle.remove()
            optimizer.step()
            handle = optimizer.register_step_pre_hook(lambda _, args, kwargs: ((args[0], closure), kwargs))
            self.assertEqual(optimizer.step(), 3.5)
            handle.remove()
            with torch.profiler.profile(acc_events=True) as profile:
                optimizer.step()
            return [e.key for e in profile.key_averages() if e.key.startswith("Optimizer.step")]

        models, wide = twins()
        for optimizer in (nw.optim.Adam, torch.optim.Adam):
            with self.subTest(optimizer):
                seen.clear()
                names = run(wide, nw.per_model(F.cross_entropy), optimizer(wide if optimizer is nw.optim.Adam else wide.parameters()))
                self.assertEqual(names, ["Optimizer.step#Adam.step"])
                self.assertEqual(seen, [(who, *call) for who in range(4) for call in ((2, []), (1, ["closure"]), (1, []))])

    def test_hooks_see_the_step_of_a_subclass_once(self):
        class Counted(nw.optim.SGD):
            def step(self, closure=None):
                seen.append("step")
                return super().step(closure)

        seen, (_, wide) = [], twins()
        optimizer = Counted(wide)
        optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
        optimizer.register_step_post_hook(lambda *_: seen.append("after"))
        optimizer.step()
        self.assertEqual(seen, ["before", "step", "after"])

    def test_losses_that_torch_compile_sees(self):
        """As PyTorch's own operators, whole and without a word."""
        out, y, real = torch.randn(N, 7, 4, requires_grad=True), torch.randint(0, 4, (N, 7)), torch.randn(N, 7, 4)
        _, wide = twins()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for loss, target in ((F.cross_entropy, y), (F.mse_loss, real)):
                own = nw.per_model(loss)
                compiled = torch.compile(own, backend="aot_eager", fullgraph=True)
                torch.testing.assert_close(compiled(out, target), own(out, target))
                got, expected = (torch.autograd.grad(f(out, target).sum(), out) for f in (compiled, own))
                torch.testing.assert_close(got, expected)
            x, _ = batch(0)
            got = torch.compile(lambda x, y: nw.per_model(F.cross_entropy)(wide(x), y), backend="aot_eager")(x, y)
            torch.testing.assert_close(got, nw.per_model(F.cross_entropy)(wide(x), y))
            got.sum().backward()
        self.assertEqual([str(w.message) for w in said], [])

    def test_matrices_by_muon(self):
        """PyTorch's own of each model, tall and wide matrices, one of them held once by all; biases by AdamW beside it."""
        for n in (1, N):
            for settings in ({"lr": LR[:n], "momentum": [0.5, 0.95, 0.8, 0.9, 0.3][:n], "weight_decay": [0, 0.1, 0.01, 0.2, 0][:n]},
                             {"lr": 0.02, "nesterov": [True, False, False, True, True][:n], "adjust_lr_fn": "match_rms_adamw"},
                             {"lr": 0.05, "nesterov": False, "ns_steps": 3, "ns_coefficients": (1.5, -0.5, 0.0)}):
                with self.subTest(n=n, **settings):
                    models = [net(i) for i in range(n)]
                    wide = nw.compile(copy.deepcopy(models), options=OPTIONS)
                    matrices, biases = ([p for p in wide.parameters() if p.dim() == d] for d in (3, 2))
                    ours = [nw.optim.Muon(wide, params=matrices, **settings), nw.optim.AdamW(wide, lr=LR[:n], params=biases)]
                    theirs = [torch.optim.Muon([m[0].weight, m[2].weight], **{k: of_model(v, i) for k, v in settings.items()})
                              for i, m in enumerate(models)]
                    theirs += [torch.optim.AdamW([m[0].bias, m[2].bias], lr=LR[i]) for i, m in enumerate(models)]
                    falling = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (*ours, *theirs)]
                    for step in range(5):
                        x, y = batch(step)
                        wide.zero_grad()
                        nw.per_model(F.cross_entropy)(wide(x[:n]), y[:n]).sum().backward()
                        for i, model in enumerate(models):
                            model.zero_grad()
                            F.cross_entropy(model(x[i]), y[i]).backward()
                        for each in (*ours, *theirs, *falling):
                            each.step()
                        self.same_weights(wide, models)
                    for i, p in enumerate(matrices):
                        state = ours[0].state_dict()["state"][i]["momentum_buffer"]
                        torch.testing.assert_close(state[0], theirs[0].state_dict()["state"][i]["momentum_buffer"])

    def test_muon_of_a_matrix_that_all_models_hold(self):
        class Headed(nn.Module):
            def __init__(self, base, i):
                super().__init__()
                self.base, self.head = base, net(i)[2]

            def forward(self, x):
                return self.head(self.base(x).tanh())

        base = nn.Linear(6, 11, bias=False).double()
        wide = nw.compile([Headed(base, i) for i in range(3)], options=OPTIONS)
        own = copy.deepcopy(base)
        x = batch(0)[0][:3]
        nw.optim.Muon(wide, params=[{"params": [wide.get_parameter("base.weight")], "lr": 0.1}])
        optimizer = nw.optim.Muon(wide, lr=0.1, params=[wide.get_parameter("base.weight")])
        wide(x).square().sum().backward()
        own.weight.grad = wide.get_parameter("base.weight").grad.clone()
        optimizer.step()
        torch.optim.Muon([own.weight], lr=0.1).step()
        torch.testing.assert_close(wide.get_parameter("base.weight"), own.weight, rtol=1e-12, atol=1e-12)
        head, before = wide.get_parameter("head.weight"), wide.get_parameter("head.weight").detach().clone()
        optimizer = nw.optim.Muon(wide, lr=[0.1, 0.2, 0.3], params=[head, wide.get_parameter("base.weight")])
        with self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] parameter: got one for all models and values for each"):
            optimizer.step()
        self.assertTrue(torch.equal(head, before))

    def test_what_muon_has_no_step_for(self):
        _, wide = twins()
        conv = nw.compile([nn.Conv2d(2, 3, 3) for _ in range(2)])
        for words, make in ((r"0.bias: got \(11,\) of each model", lambda: nw.optim.Muon(wide)),
                            (r"weight: got \(3, 2, 3, 3\) of each model", lambda: nw.optim.Muon(conv, params=[conv.weight])),
                            ("adjust_lr_fn: got 'other'", lambda: nw.optim.Muon(wide, adjust_lr_fn="other")),
                            ("ns_steps: got 100", lambda: nw.optim.Muon(wide, ns_steps=100)),
                            ("ns_coefficients: got 3", lambda: nw.optim.Muon(wide, ns_coefficients=3)),
                            ("momentum: got 1.5", lambda: nw.optim.Muon(wide, momentum=[1.5] * N))):
            with self.assertRaisesRegex(nw.Error, rf"^\[nw.optim\] {words}.*, expected .*; try "):
                make()
        half = nw.compile([nn.Linear(4, 3, bias=False).bfloat16() for _ in range(2)])
        optimizer = nw.optim.Muon(half)
        half.weight.grad = torch.zeros_like(half.weight)
        with self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] parameter: got torch.bfloat16, expected float32 or float64"):
            optimizer.step()

    def test_what_mixes_models_is_refused_by_name(self):
        _, wide = twins()
        x, y = batch(0)
        nw.per_model(F.cross_entropy)(wide(x), y).sum().backward()
        others = [torch.optim.Adafactor(wide.parameters()), torch.optim.Muon([wide.get_parameter("0.bias")])]
        for other in others:
            with self.assertRaisesRegex(nw.Error, rf"^\[torch.optim.{type(other).__name__}\] parameters: got .*; try nw"):
                other.step()
        lbfgs = torch.optim.LBFGS(wide.parameters())
        with self.assertRaisesRegex(nw.Error, r"^\[torch.optim.LBFGS\] "):
            lbfgs.step(lambda: 0)
        with self.assertRaisesRegex(nw.Error, r"^\[torch.nn.utils.clip_grad_norm_\] .*; try nw.clip_grad_norm_"):
            clip_grad_norm_(wide.parameters(), 1.0)  # imported before the package
        with self.assertRaisesRegex(nw.Error, r"^\[torch.nn.utils.clip_grad_norm_\] .*; try nw.clip_grad_norm_"):
            torch.nn.utils.clip_grads_with_norm_(wide.parameters(), 1.0, torch.tensor(2.0))
        with self.assertRaisesRegex(nw.Error, r"^\[torch.nn.utils.clip_grad_norm_\] .*; try nw.clip_grad_norm_"):
            clip_grads_with_norm_(wide.parameters(), 1.0, torch.tensor(2.0))
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(nw.optim.Adam(wide, lr=LR), patience=0)
        with self.assertRaisesRegex(nw.Error, r"ReduceLROnPlateau"):
            for _ in range(3):
                plateau.step(1.0)
        norms = [torch.nn.BatchNorm1d(x.shape[-1]).double() for _ in range(len(wide))]
        inside = torch.nn.Sequential(nw.compile(norms))
        with self.assertRaisesRegex(nw.Error, r"^\[torch.optim.swa_utils.update_bn\] .*; try calls of wide.train"):
            torch.optim.swa_utils.update_bn([x], inside)
        with self.assertRaisesRegex(nw.Error, r"^\[torch.optim.swa_utils.update_bn\] .*; try calls of wide.train"):
            update_bn([x], AveragedModel(inside))
        torch.optim.swa_utils.update_bn([x], wide)  # no batch norm: nothing to do
        torch.optim.swa_utils.update_bn([x[0]], norms[0])
        self.assertLess((norms[0].running_mean - x[0].mean(0)).abs().max(), 1e-6)
        model = net(0)
        model(x[0]).sum().backward()
        torch.optim.Adafactor(model.parameters()).step()
        gradients = [p.grad.clone() for p in model.parameters()]
        norm = clip_grad_norm_(model.parameters(), 1.0)
        torch.testing.assert_close(norm, torch.cat([g.flatten() for g in gradients]).norm())
        clip_grads_with_norm_(model.parameters(), 0.1, torch.tensor(1.0))
        for p, gradient in zip(model.parameters(), gradients):
            torch.testing.assert_close(p.grad, 0.1 * gradient / norm)

    def test_wrong_values_are_refused(self):
        _, wide = twins()
        other = nw.compile([net(i) for i in range(3)])
        for make in (lambda: nw.optim.Adam(wide, params=[*wide.parameters(), *other.parameters()]),
                     lambda: nw.optim.Adam(wide, lr=LR, params=[nn.Parameter(torch.zeros(()))]),
                     lambda: nw.optim.Adam(wide, betas=[0.9]), lambda: nw.optim.Adam(wide, lr="a"),
                     lambda: nw.optim.Adam(wide, lr=[0.1, 0.2]), lambda: nw.optim.Adam(wide, lr=-1.0),
                     lambda: nw.optim.Adam(net(0)), lambda: nw.optim.SGD(wide, lr=[0.1] * 4 + [-1])):
            self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] \w+: got .*, expected .*; try ", make)


if __name__ == "__main__":
    unittest.main()
