"""A wide module keeps what nn.Module promises."""

import package

package.enter()

import copy  # noqa: E402
import io  # noqa: E402
import os  # noqa: E402
import pickle  # noqa: E402
import tempfile  # noqa: E402
import textwrap  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
import unittest  # noqa: E402
from collections import OrderedDict  # noqa: E402
from unittest import mock  # noqa: E402

import torch  # noqa: E402
import torch.fx  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402


def mlps(n, seed=0):
    torch.manual_seed(seed)
    models = [nn.Sequential(nn.Linear(6, 11), nn.BatchNorm1d(11), nn.ReLU(), nn.Linear(11, 3)) for _ in range(n)]
    for model in models:  # statistics of their own
        model(torch.randn(40, 6) * 2 + 1)
    return [m.eval() for m in models]


def separate(models, x):
    """Each model in float64 on its own input."""
    with torch.no_grad():
        return torch.stack([copy.deepcopy(m).double()(one.double()) for m, one in zip(models, x)])


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, batch, *, scale, flag=True, extra=None):
        y = self.a(batch["x"]) * scale
        return {"y": self.b(y), "more": (y, None, 3), "flag": flag} if flag else y


class Close(unittest.TestCase):
    def close(self, got, expected, tolerance=1e-5):
        self.assertEqual(tuple(got.shape), tuple(expected.shape))
        error = (got.double() - expected.double()).abs().max() / expected.double().abs().max().clamp(min=1e-30)
        self.assertLess(float(error), tolerance)


class Calls(Close):
    def test_models_stay_apart_in_reduced_precision(self):
        """A model of nothing but NaN, beside others whose channels oneDNN fills up to a multiple of its own."""
        for dtype in (torch.bfloat16, torch.float16):
            for channels in (3, 5, 17):
                models = [nn.Conv2d(channels, 4, 3, padding=1).to(dtype) for _ in range(5)]
                x = torch.randn(5, 2, channels, 8, 8).to(dtype)
                x[1] = float("nan")
                made = nw.compile(models, options=nw.Options(threads=1))(x)
                self.assertEqual(made.isnan().flatten(1).any(1).tolist(), [False, True, False, False, False], (dtype, channels))

    def test_equal_to_the_separate_models(self):
        for n in (1, 3, 7):
            models, x = mlps(n), torch.randn(n, 5, 6)
            wide = nw.compile(models, x[0])
            with torch.no_grad():
                self.close(wide(x), separate(models, x))
                self.close(wide.freeze()(x), separate(models, x))

    def test_batches_take_turns_without_compiling_again(self):
        models = mlps(3)
        wide = nw.compile(models, torch.randn(1, 6))
        with torch.no_grad():
            for batch in (1, 256, 1, 256, 1, 256):
                x = torch.randn(3, batch, 6)
                self.close(wide(x), separate(models, x))
            self.assertEqual(next(iter(wide._cores.values()))[0].signatures(), 2)

    def test_nested_arguments_and_results(self):
        models = [Nested() for _ in range(3)]
        x, scale = torch.randn(3, 2, 4), torch.randn(3, 1)
        wide = nw.compile(models, {"batch": {"x": x[0]}, "scale": scale[0]})
        with torch.no_grad():
            got = wide({"x": x}, scale=scale)
            self.assertEqual(list(got), ["y", "more", "flag"])
            self.assertEqual(got["more"][1:], (None, 3))
            self.assertIs(got["flag"], True)
            for i, model in enumerate(models):
                own = model({"x": x[i]}, scale=scale[i])
                self.close(got["y"][i], own["y"])
                self.close(got["more"][0][i], own["more"][0])
            self.assertEqual(tuple(wide({"x": x}, scale=scale, flag=False).shape), (3, 2, 4))

    def test_code_that_others_put_around_a_model(self):
        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 3

            @staticmethod
            def backward(ctx, gradient):
                return gradient * 3

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(4, 4)
                self.inner.register_forward_hook(lambda module, args, out: out.relu())
                self.quick = torch.compile(nn.Linear(4, 2))

            def forward(self, x):
                return self.quick(Scaled.apply(self.inner(x)))

        models, x = [Net() for _ in range(3)], torch.randn(3, 5, 4)
        wide = nw.compile(models, x[0])
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            expected = torch.stack([m(one) for m, one in zip(models, x)])
        with torch.no_grad():
            self.close(wide(x), expected)

    def test_exports_run_without_this_package(self):
        models, x = mlps(3), torch.randn(3, 5, 6)
        wide = nw.compile(models, x[0])
        with tempfile.TemporaryDirectory() as folder:
            for name, load in (("wide.pt2", lambda path: torch.export.load(path).module()), ("wide.ts", torch.jit.load)):
                path = os.path.join(folder, name)
                wide.export(path)
                with torch.no_grad():
                    self.close(load(path)(x), separate(models, x))

    def test_one_input_for_all(self):
        models, x = mlps(4), torch.randn(5, 6)
        wide = nw.compile(models, x, in_dims=None)
        with torch.no_grad():
            self.close(wide(x), separate(models, x.expand(4, 5, 6)))
        wide = nw.compile(models, x, in_dims=1)  # models counted by the second dimension
        y = torch.randn(5, 4, 6)
        with torch.no_grad():
            self.close(wide(y), separate(models, y.transpose(0, 1)))

    def test_functions_of_tensors(self):
        wide = nw.compile(lambda a, b: a @ b.mT + 1, n=3)
        a, b = torch.randn(3, 2, 4), torch.randn(3, 5, 4)
        self.close(wide(a, b), a @ b.mT + 1)

    def test_under_inference_mode_and_back(self):
        models, x = mlps(3), torch.randn(3, 2, 6)
        wide = nw.compile(models, x[0])
        with torch.inference_mode():
            first = wide(x)
        second = wide(x.clone().requires_grad_(False))
        self.assertTrue(torch.equal(first, second))
        self.assertFalse(wide(x).is_inference())

    def test_compiled_under_inference_mode(self):
        """Dropout writes in place; models and inputs are made inside or outside of the mode."""
        def models():
            torch.manual_seed(3)
            return [nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Dropout(0.2, inplace=True),
                                  nn.Linear(8, 3), nn.Hardtanh(inplace=True)).eval() for _ in range(3)]

        outside, x = models(), torch.randn(3, 2, 6)
        expected = separate(outside, x)
        with torch.inference_mode():
            self.close(nw.compile(outside, x[0])(x), expected)
            self.close(nw.compile(models(), x[0].clone())(x.clone()), expected)
            wide = nw.compile([m.train() for m in models()], x[0])  # draws masks
            self.assertTrue(wide(x).isfinite().all())
        self.assertTrue(wide(x).isfinite().all())

    def test_classes_made_anew(self):
        """A notebook's cell that ran twice; a class for each instance, as torch.fx makes them."""
        code = """
            class Block(nn.Module):
                def __init__(self, width=5):
                    super().__init__()
                    self.linear = nn.Linear(4, width)

                def forward(self, x):
                    return torch.relu(self.linear(x))

            class Net(nn.Module):
                scale = 2.0

                def __init__(self):
                    super().__init__()
                    self.block, self.out = Block(), nn.Linear(5, 3)

                @property
                def twice(self):
                    return self.scale * 2

                @staticmethod
                def add(x, by=1):
                    return x + by

                def forward(self, x):
                    def later(y):
                        return self.add(y) * self.twice
                    return later(self.out(self.block(x)))
        """
        names, models = {"nn": nn, "torch": torch}, []
        for k in range(3):
            exec(compile(textwrap.dedent(code) + "\n" * k, f"cell-{k}.py", "exec"), names)
            models.append(names["Net"]())
        self.assertEqual(len({type(m) for m in models}), 3)
        x = torch.randn(3, 2, 4)
        for form in (models, [torch.fx.symbolic_trace(m) for m in models]):
            self.assertEqual(len({type(m) for m in form}), 3)
            with torch.no_grad():
                self.close(nw.compile(form, x[0])(x), separate(models, x))

    def test_autocast(self):
        models, x = [nn.Linear(8, 8) for _ in range(3)], torch.randn(3, 4, 8)
        wide = nw.compile(models, x[0])
        with torch.no_grad():
            plain = wide(x)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                cast = wide(x)
                own = torch.stack([m(one) for m, one in zip(models, x)])
            self.assertEqual(cast.dtype, torch.bfloat16)
            self.close(cast.float(), own.float(), 2e-2)
            self.assertTrue(torch.equal(wide(x), plain))

    def test_captured_tensors(self):
        class Masked(nn.Module):
            def __init__(self, own):
                super().__init__()
                self.linear = nn.Linear(4, 4)
                self.mask = torch.tensor([1.0, 0.0, 1.0, 0.0])  # nobody registered it
                self.own = own

            def forward(self, x):
                return self.linear(x * self.mask) + self.own
        models = [Masked(torch.full((4,), float(i))) for i in range(3)]
        x = torch.randn(3, 2, 4)
        with torch.no_grad():
            expected = torch.stack([m(one) for m, one in zip(models, x)])
            self.close(nw.compile(models, x[0])(x), expected)

    def test_state_that_nobody_registered(self):
        class Counts(nn.Module):
            def __init__(self):
                super().__init__()
                self.mean, self.var = torch.zeros(4), torch.ones(4)  # the same in all models so far

            def forward(self, x):
                return nn.functional.batch_norm(x, self.mean, self.var, training=True) + self.mean
        models, x = [Counts() for _ in range(3)], torch.randn(3, 5, 4)
        wide = nw.compile(models, x[0])
        for _ in range(2):
            self.close(wide(x), torch.stack([m(one) for m, one in zip(models, x)]))

    def test_parametrized_modules(self):
        models = [nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)) for _ in range(3)]
        x = torch.randn(3, 2, 4)
        with torch.no_grad():
            self.close(nw.compile(models, x[0])(x), torch.stack([m(one) for m, one in zip(models, x)]))

    def test_samples_of_few_values(self):
        wide = nw.compile(lambda p: torch.multinomial(p, 2), torch.tensor([0.0, 0.5, 0.5]), n=3)
        self.assertEqual(tuple(wide(torch.rand(3, 3)).shape), (3, 2))

    def test_conjugates(self):
        wide = nw.compile(lambda z: (z * 2).conj(), n=3)
        z = torch.randn(3, 5, dtype=torch.cfloat)
        self.close(torch.view_as_real(wide(z)), torch.view_as_real((z * 2).conj().resolve_conj()))
        self.close(torch.view_as_real(wide(z.conj())), torch.view_as_real(z * 2))

    def test_tied_weights(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.into, self.out = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
                self.out.weight = self.into.weight

            def forward(self, ids):
                return self.out(self.into(ids))
        models = [Tied() for _ in range(3)]
        ids = torch.randint(0, 9, (3, 5))
        wide = nw.compile(models, ids[0])
        with torch.no_grad():
            self.close(wide(ids), torch.stack([m(one) for m, one in zip(models, ids)]))
        self.assertEqual(set(wide.state_dict()), {"into.weight", "out.weight"})
        self.assertEqual(len(list(wide.parameters())), 1)


class State(Close):
    def test_names_are_those_of_the_models(self):
        models = mlps(3)
        wide = nw.compile(models, torch.randn(2, 6))
        own = models[0].state_dict()
        self.assertEqual(list(wide.state_dict()), list(own))
        for name, tensor in wide.state_dict().items():
            self.assertTrue(torch.equal(tensor, torch.stack([m.state_dict()[name] for m in models])), name)
        self.assertEqual([n for n, _ in wide.named_parameters()], [n for n, _ in models[0].named_parameters()])

    def test_every_way_to_write_weights_counts(self):
        models, x = mlps(3), torch.randn(3, 4, 6)
        wide = nw.compile(models, x[0])
        others = mlps(3, seed=9)
        with torch.no_grad():
            wide(x)
            for i, other in enumerate(others):
                wide[i].load_state_dict(other.state_dict())
            self.close(wide(x), separate(others, x))
            wide.load_state_dict({n: torch.stack([m.state_dict()[n] for m in models]) for n in models[0].state_dict()})
            self.close(wide(x), separate(models, x))
            weight = dict(wide.named_parameters())["3.weight"]
            weight.mul_(2)
            weight.data[1] = 0.5
            changed = [copy.deepcopy(m) for m in models]
            for i, m in enumerate(changed):
                m[3].weight.mul_(2)
                if i == 1:
                    m[3].weight.data.fill_(0.5)
            self.close(wide(x), separate(changed, x))
            weight.data = torch.zeros_like(weight)
            for m in changed:
                m[3].weight.zero_()
            self.close(wide(x), separate(changed, x))
            both = torch.randn(2, *weight.shape)
            for other in (both[0], both[1], both[0], both[0].transpose(0, 1)):  # parts of one storage
                weight.data = other
                for m, own in zip(changed, other):
                    m[3].weight.copy_(own)
                self.close(wide(x), separate(changed, x))
            weight.data = both[0]
            wide.copy_to(models)
            self.close(wide(x), separate(models, x))

    def test_copies_and_pickles(self):
        models, x = mlps(3), torch.randn(3, 4, 6)
        # Compiled again, tuning may choose another strategy, whose results differ by an ulp.
        options = nw.Options(tune=False)
        wide = nw.compile(models, x[0], options=options)
        with torch.no_grad():
            y = wide(x)
            twin = copy.deepcopy(wide)
            next(twin.parameters()).zero_()
            self.assertTrue(torch.equal(wide(x), y))
            self.assertFalse(torch.equal(twin(x), y))
            self.assertTrue(torch.equal(pickle.loads(pickle.dumps(wide))(x), y))
            parent = nn.Sequential(wide, nn.Linear(3, 2))
            file = io.BytesIO()
            torch.save(parent.state_dict(), file)
            file.seek(0)
            other = nn.Sequential(nw.compile(mlps(3, seed=5), x[0], options=options), nn.Linear(3, 2))
            other.load_state_dict(torch.load(file))
            self.assertTrue(torch.equal(other(x), parent(x)))

    def test_other_dtypes(self):
        models, x = mlps(3), torch.randn(3, 4, 6)
        wide = nw.compile(models, x[0])
        with torch.no_grad():
            wide(x)
            self.close(wide.double()(x.double()), separate(models, x), 1e-12)
            self.assertEqual(wide(x.double()).dtype, torch.float64)

    def test_train_mode_has_statistics_and_masks_of_its_own(self):
        models, x = mlps(3), torch.randn(3, 16, 6)
        wide = nw.compile(models, x[0]).train()
        for m in models:
            m.train()
        with torch.no_grad():
            for _ in range(3):
                got = wide(x)
                expected = torch.stack([m(one) for m, one in zip(models, x)])
                self.close(got, expected, 1e-4)
            for i, m in enumerate(models):
                for name, tensor in m.state_dict().items():
                    self.close(wide[i].state_dict()[name], tensor, 1e-4)
            drop = nw.compile(nn.Dropout(0.5).train(), torch.ones(1000), n=3)
            masks = drop(torch.ones(3, 1000)) == 0
            self.assertFalse(torch.equal(masks[0], masks[1]))
            for mask in masks:
                self.assertLess(abs(float(mask.float().mean()) - 0.5), 0.1)
            self.assertEqual(int((drop.eval()(torch.ones(3, 1000)) == 0).sum()), 0)

    def test_buffers_that_forward_assigns(self):
        class Moving(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(6, 3)
                self.register_buffer("mean", torch.randn(3))
                self.register_buffer("calls", torch.tensor(0))

            def forward(self, x):
                h, before = self.linear(x), self.mean
                self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(0)
                self.calls = self.calls + 1
                return h * self.mean, before, self.mean

        torch.manual_seed(0)
        models = [Moving() for _ in range(3)]
        wide = nw.compile(copy.deepcopy(models), options=nw.Options(tune=False))
        for calls in (1, 2, 3):
            x = torch.randn(3, 7, 6)
            with torch.set_grad_enabled(calls != 2):
                got, expected = wide(x), [m(one) for m, one in zip(models, x)]
            for k in range(3):
                self.close(got[k].detach(), torch.stack([e[k].detach() for e in expected]))
            self.close(wide.state_dict()["mean"], torch.stack([m.mean for m in models]))
            self.assertEqual(wide.state_dict()["calls"].tolist(), [calls] * 3)

        class Growing(Moving):
            def forward(self, x):
                self.mean = torch.cat([self.mean, self.mean])
                return self.linear(x)

        wide = nw.compile([Growing() for _ in range(3)])
        with self.assertRaisesRegex(nw.Error, r"^\[forward\] buffer mean: got another one of torch.float32 \(6,\), expected one of "
                                              r"torch.float32 \(3,\) as before; try "):
            wide(torch.randn(3, 7, 6))

    def test_the_first_call_draws_as_any(self):
        for needs in (False, True):
            wide = nw.compile([nn.Sequential(nn.Dropout(0.5)) for _ in range(3)])
            x, seen = torch.randn(3, 20, 10, requires_grad=needs), []
            for _ in range(3):
                torch.manual_seed(3)
                seen.append((wide(x).detach().clone(), torch.get_rng_state()))
            for y, state in seen[1:]:
                self.assertTrue(torch.equal(y, seen[0][0]))
                self.assertTrue(torch.equal(state, seen[0][1]))

    def test_equal_starts_and_shared_parameters_are_reported(self):
        models = mlps(6)
        models[3].load_state_dict(models[1].state_dict())
        models[5].load_state_dict(models[1].state_dict())
        for m in models:
            m[3].bias = models[0][3].bias
        wide = nw.compile(models, torch.randn(5, 6))
        said = wide.validate()
        self.assertTrue(said)
        self.assertEqual(said.equal, ((1, 3, 5),))
        self.assertEqual(said.held_once, ("3.bias",))
        said = nw.compile(mlps(3), torch.randn(5, 6)).validate()
        self.assertEqual((said.equal, said.held_once), ((), ()))

    def test_frozen_until_told(self):
        models, x = mlps(3), torch.randn(3, 4, 6)
        wide = nw.compile(models, x[0]).freeze()
        with torch.no_grad():
            wide(x)
            next(wide.parameters()).mul_(3)
            wide.freeze()
            after = wide(x)
            self.close(after, separate([wide[i].module() for i in range(3)], x))

    def test_results_that_are_inputs_or_whole_numbers_keep_their_own_history(self):
        class Passing(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(6, 3)

            def forward(self, x):
                y = self.linear(x)
                return x, y, y.argmax(-1)

        models, x = [Passing() for _ in range(3)], torch.randn(3, 4, 6, requires_grad=True)
        wide = nw.compile(models, x[0].detach())
        same, y, best = wide(x)
        self.assertIsNone(x.grad_fn)
        self.assertTrue(same.requires_grad and y.requires_grad)
        self.assertFalse(best.requires_grad)
        torch.testing.assert_close(same, x)
        with torch.inference_mode():
            kept = torch.randn(3, 4, 6)
        torch.testing.assert_close(wide(kept)[0], kept)


class Threads(Close):
    def test_a_model_in_each(self):
        failures = []

        def work(seed):
            try:
                for k in range(5):
                    models, x = mlps(3, seed), torch.randn(3, 1 + k, 6)
                    wide = nw.compile(models, x[0])
                    with torch.no_grad():
                        for _ in range(20):
                            self.close(wide(x), separate(models, x))
            except BaseException as error:  # noqa: BLE001
                failures.append(error)
        self.in_threads(work, failures)

    def test_one_model_in_all(self):
        failures, models = [], mlps(3)
        wides = nw.compile(models), nw.compile(models).freeze(), nw.compile(models, in_dims=None)

        def work(seed):
            try:
                generator = torch.Generator().manual_seed(seed)
                for k in range(30):
                    x = torch.randn(3, 1 + (seed + k) % 5, 6, generator=generator)
                    expected = separate(models, x)
                    with torch.no_grad():
                        self.close(wides[0](x), expected)
                        self.close(wides[1](x), expected)
                        self.close(wides[2](x[1])[1], expected[1])
            except BaseException as error:  # noqa: BLE001
                failures.append(error)
        self.in_threads(work, failures)

    def test_statistics_count_every_call(self):
        class Slow:
            """What is compiled, where another thread comes in between as soon as a call is computed."""

            def __init__(self, core):
                self.core = core

            def run(self, *arguments):
                results = self.core.run(*arguments)
                time.sleep(0.01)
                return results

        models, x = [nn.BatchNorm1d(6) for _ in range(3)], torch.randn(3, 5, 6)
        wide = nw.compile(models, x[0])
        for frozen in (False, True):
            wide.freeze(frozen)
            wide(x)
            for key, (core, recorder) in wide._cores.items():
                wide._cores[key] = Slow(core), recorder
            wide._quick = None
            failures = []

            def work(_):
                try:
                    for _ in range(3):
                        wide(x)
                except BaseException as error:  # noqa: BLE001
                    failures.append(error)
            self.in_threads(work, failures)
            for m, one in zip(models, x):
                for _ in range(1 + 8 * 3):
                    m(one)
            for name, t in wide.state_dict().items():
                self.close(t, torch.stack([m.state_dict()[name] for m in models]), 1e-4)

    def test_a_kind_of_call_is_compiled_once(self):
        class Slow(OrderedDict):
            """Other threads come in between whenever one has looked something up."""

            def pop(self, *arguments):
                found = super().pop(*arguments)
                time.sleep(0.01)
                return found

            def get(self, *arguments):
                found = super().get(*arguments)
                time.sleep(0.01)
                return found

        models, x = mlps(3), torch.randn(3, 4, 6)
        wide, failures = nw.compile(models), []
        wide(input=x)
        wide.__dict__["_cores"] = Slow(wide._cores)

        def work(_):
            try:
                for _ in range(3):
                    wide(input=x)  # by name: looked up in every call
            except BaseException as error:  # noqa: BLE001
                failures.append(error)
        with mock.patch.object(nw.WideModule, "_compiled", autospec=True, side_effect=nw.WideModule._compiled) as compiled:
            self.in_threads(work, failures)
        self.assertEqual(compiled.call_count, 0)

    def in_threads(self, work, failures):
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])


if __name__ == "__main__":
    unittest.main()
