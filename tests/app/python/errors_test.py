"""What cannot be: one nw.Error, naming the thing, what was got and what was expected."""

import package

package.enter()

import functools  # noqa: E402
import itertools  # noqa: E402
import random  # noqa: E402
import re  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import unittest  # noqa: E402
import weakref  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.fx  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import prune  # noqa: E402

import nwide as nw  # noqa: E402

LINE = re.compile(r"^\[[^\]]+\] .+: got .+, expected .+; try .+$")


class Branches(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Writes(nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * 2


class Keeps(nn.Module):
    def forward(self, x):
        self.last = x * 2
        return x


class Lottery(nn.Module):
    def forward(self, x):
        return x * random.random()


class Arrays(nn.Module):
    def forward(self, x):
        return x + torch.from_numpy(x.detach().numpy() * 2)


class Compiles(nn.Module):
    def forward(self, x):
        return nw.compile(nn.Linear(4, 3), n=2)(x.expand(2, *x.shape))


class Counts(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.register_buffer("count", count)

    def forward(self, x):
        return x + self.count.add_(1)


class Dicts(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, batch, scale):
        return self.linear(batch["x"]) * scale


class Selects(nn.Module):
    def forward(self, x):
        return x[x > 0]


class Refused(unittest.TestCase):
    def refused(self, words, call):
        with self.assertRaises(nw.Error) as caught:
            call()
        text = str(caught.exception)
        self.assertNotIn("\n", text)
        self.assertRegex(text, LINE)
        self.assertRegex(text, words)
        return text

    def test_other_architectures(self):
        x = torch.randn(2, 4)
        self.refused("of model 1", lambda: nw.compile([nn.Linear(4, 3), nn.Linear(4, 5)], x))
        self.refused("of model 1", lambda: nw.compile([nn.Linear(4, 3), nn.Linear(4, 3, bias=False)], x))
        self.refused("model 1: got Tanh", lambda: nw.compile([nn.Sequential(nn.ReLU()), nn.Sequential(nn.Tanh())], x))
        self.refused("model 2: got p=0.2", lambda: nw.compile(
            [nn.Sequential(nn.Dropout(p)) for p in (0.1, 0.1, 0.2)], x))
        odd = nn.Linear(4, 3)
        odd.extra = 3
        self.refused("extra of model 1", lambda: nw.compile([nn.Linear(4, 3), odd], x))

    def test_classes_of_one_name_that_differ(self):
        """The message says which part of a class differs, as names are the same."""
        def cell(code):
            names = {"nn": nn, "torch": torch}
            exec(compile(code, "cell.py", "exec"), names)  # as a notebook runs it
            return names["M"]()

        base = ("class M(nn.Module):\n"
                "    scale = 2\n"
                "    def forward(self, x):\n"
                "        return x * self.scale\n")
        x = torch.randn(2, 4)
        where = r" \(at cell.py:3\), expected M \(at cell.py:3\) as in model 0"
        for part, code in (("forward" + where, base.replace("x * self", "x / self")),
                           ("scale" + where, base.replace("2", "3")), ("more" + where, base + "    more = 1\n"),
                           ("base", base.replace("nn.Module", "nn.ReLU"))):
            self.refused(f"the model itself of model 1: got M with another {part}",
                         lambda code=code: nw.compile([cell(base), cell(code)], x))
        used = "def f(x):\n    return x * {}\nclass M(nn.Module):\n    def forward(self, x):\n        return f(x)\n"
        self.refused("got M with another forward", lambda: nw.compile([cell(used.format(2)), cell(used.format(3))], x))

        class Two(nn.Module):
            def forward(self, x):
                return x * 2 + 1

        class Three(nn.Module):
            def forward(self, x):
                return x * 3 + 1

        self.refused("got Two with another forward", lambda: nw.compile(
            [torch.fx.symbolic_trace(Two()), torch.fx.GraphModule(Three(), torch.fx.symbolic_trace(Three()).graph, "Two")], x))

    def test_calls_that_only_look(self):
        """Refused by name, and the module computes as before; torch.compile leaves it alone."""
        models = [nn.Linear(4, 3) for _ in range(3)]
        x = torch.randn(3, 5, 4)
        wanted = torch.stack([m(one) for m, one in zip(models, x)])
        for warm in (False, True):
            for by, call in {
                    "torch.jit.trace": lambda w: torch.jit.trace(w, (x,)),
                    "torch.jit.trace, exp": lambda w: torch.jit.trace(nn.Sequential(w, nn.ReLU()), (x,)),
                    "torch.jit.script": torch.jit.script,
                    "torch.jit.script, exp": lambda w: torch.jit.script(nn.Sequential(nn.ReLU(), w)),
                    "torch.fx.symbolic_trace": torch.fx.symbolic_trace,
                    "torch.fx.symbolic_trace, exp": lambda w: torch.fx.symbolic_trace(nn.Sequential(nn.ReLU(), w)),
                    "torch.func": lambda w: torch.vmap(w)(torch.stack([x, x])),
                    "vmap or grad": lambda w: torch.func.grad(lambda one: w(one).sum())(x),
                    "torch.func, such": lambda w: torch.vmap(w.at([0, 2]))(x[:2].expand(4, 2, 5, 4)),
                    "torch.export": lambda w: torch.export.export(w, (x,)),
                    "another trace": lambda w: torch.fx.experimental.proxy_tensor.make_fx(w)(x)}.items():
                with self.subTest(by=by, warm=warm):
                    wide = nw.compile(models)
                    if warm:
                        wide(x)
                    self.refused(by, lambda: call(wide))
                    torch.testing.assert_close(wide(x), wanted)
            wide = nw.compile(models)
            if warm:
                wide(x)
            for compiled in (lambda one: torch.compile(wide)(one), torch.compile(lambda one: wide(one) * 1.0),
                             torch.compile(lambda one: wide.at([0, 1, 2])(one) + 0.0)):
                torch.testing.assert_close(compiled(x), wanted)
            with self.assertRaisesRegex(RuntimeError, "a wide module is compiled already: .*; try it without them"):
                torch.compile(lambda one: wide(one) + 1.0, fullgraph=True)(x)

    def test_tangents_and_weights_under_another_name(self):
        wide, x = nw.compile([nn.Linear(4, 3) for _ in range(3)]), torch.randn(3, 5, 4)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
            self.refused("got one under forward-mode differentiation", lambda: wide(dual))
            wide(x)
        nn.utils.parametrizations.weight_norm(wide, "weight")
        self.refused("weight 'weight': got none of this name", lambda: wide(x))

    def test_tensors_that_do_not_fit(self):
        x = torch.randn(2, 4)
        self.refused("weight of model 1: got dtype", lambda: nw.compile([nn.Linear(4, 3), nn.Linear(4, 3).double()], x))
        with torch.device("meta"):  # which goes on as ever where something was recorded before
            meta = nn.Linear(4, 3)
        self.refused("meta tensor", lambda: nw.compile([meta, meta], x))
        self.refused("sample input: got a meta", lambda: nw.compile([nn.Linear(4, 3)], x.to("meta")))

    def test_numbers_of_models(self):
        self.refused("models: got none", lambda: nw.compile([], torch.ones(1)))
        self.refused("n: got 0", lambda: nw.compile(nn.Linear(4, 3), n=0))
        self.refused("n: got none", lambda: nw.compile(nn.Linear(4, 3)))
        self.refused("n: got 3, expected 2", lambda: nw.compile([nn.Linear(4, 3)] * 2, n=3))
        self.refused("got int", lambda: nw.compile([3], torch.ones(1)))
        self.refused(r"models: got generator, .*; try list\(models\)", lambda: nw.compile(nn.Linear(4, 3) for _ in range(2)))
        self.refused(r"got dict, .*; try list\(models.values\(\)\)", lambda: nw.compile({0: nn.Linear(4, 3)}))
        self.refused(r"got ndarray, .*; try list\(models\)", lambda: nw.compile(np.array([nn.Linear(4, 3)], object)))
        self.refused("n: got True", lambda: nw.compile(nn.Linear(4, 3), n=True))
        self.assertEqual(nw.compile(nn.Linear(4, 3), n=np.int64(3))(torch.ones(3, 5, 4)).shape, (3, 5, 3))
        wide = nw.compile([nn.Linear(4, 3) for _ in range(2)], torch.randn(2, 4))
        text = self.refused(r"input input: got f32\[3, 2, 4\]", lambda: wide(torch.randn(3, 2, 4)))
        self.assertRegex(text, "expected .* for 2 models; try nw.pack, or in_dims=None for an input that all models share$")
        self.refused("copy_to", lambda: wide.copy_to([nn.Linear(4, 3)]))
        with self.assertRaises(IndexError):
            wide[2]
        self.refused(r"model: got slice\(0, 2, None\), expected the number of one model", lambda: wide[0:2])
        self.assertIs(type(wide[np.int64(1)]), type(wide[1]))

    def test_values_that_decide(self):
        text = self.refused("data-dependent", lambda: nw.compile([Branches()], torch.randn(4)))
        self.assertIn("errors_test.py:", text)
        self.refused("data-dependent", lambda: nw.compile([nn.Sequential(nn.ReLU(), Selects())], torch.randn(4)))
        text = self.refused("data-dependent", lambda: nw.compile([nn.Sequential(nn.ReLU(), Selects())] * 2, torch.randn(4)))
        self.assertIn("in 1", text)

    def test_what_forward_leaves_behind(self):
        self.refused("input x: got a change in place", lambda: nw.compile([Writes()], torch.randn(4)))
        model = Keeps()
        self.refused(r"^\[last\] state", lambda: nw.compile([model], torch.randn(4)))
        self.assertFalse(hasattr(model, "last"))

    def test_chance_outside_torch(self):
        self.refused("program: got another one", lambda: nw.compile([Lottery()], torch.randn(4)))

    def test_without_a_sample_the_first_call_refuses_the_same(self):
        self.refused("input x: got a change in place", lambda: nw.compile([Writes()] * 2)(torch.randn(2, 4)))
        self.refused("program: got another one", lambda: nw.compile([Lottery()] * 2)(torch.randn(2, 4)))
        self.refused("data-dependent", lambda: nw.compile([Branches()] * 2)(torch.randn(2, 4)))

    def test_wrong_shapes_say_where(self):
        text = self.refused("in 2", lambda: nw.compile(
            [nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(5, 2))], torch.randn(2, 4)))
        self.assertIn("RuntimeError", text)
        wide = nw.compile([nn.Linear(4, 3) for _ in range(2)], torch.randn(2, 4))
        self.refused("in the model itself", lambda: wide(torch.randn(2, 2, 5)))
        self.refused("RuntimeError", lambda: wide(torch.randn(2, 2, 4, dtype=torch.double)))
        with torch.no_grad():
            self.assertEqual(tuple(wide(torch.randn(2, 7, 4)).shape), (2, 7, 3))  # and goes on

    def test_memory_that_is_not_there(self):
        def freed(tensor):
            tensor.data.untyped_storage().resize_(0)
            return tensor
        x = torch.randn(2, 4)
        models = [nn.Linear(4, 3) for _ in range(2)]
        wide = nw.compile(models, x)
        freed(models[1].weight)
        self.refused("weight of model 1: got memory that was freed", lambda: nw.compile(models, x))
        self.refused("sample input: got memory that was freed", lambda: nw.compile(models[:1], freed(x.clone())))
        self.refused("input input: got memory that was freed", lambda: wide(freed(torch.randn(2, 2, 4))))
        self.refused("input input: got a meta tensor", lambda: wide(torch.randn(2, 2, 4, device="meta")))
        self.refused("input input: got the layout Sparse", lambda: wide(torch.randn(2, 2, 4).to_sparse()))
        self.refused("sample input: got layout torch.sparse", lambda: nw.compile(models[:1], x.to_sparse()))
        self.assertEqual(tuple(wide(torch.randn(2, 2, 4)).shape), (2, 2, 3))  # it holds weights of its own
        freed(wide.weight)
        self.refused("weight: got memory that was freed", lambda: wide(torch.randn(2, 2, 4)))
        lazy = nn.LazyLinear(3)
        self.refused("weight of model 0: got a tensor of no size yet", lambda: nw.compile([lazy], x))

    def test_weights_that_do_not_fit(self):
        x = torch.randn(2, 4)
        wide = nw.compile([nn.Linear(4, 3) for _ in range(2)], x)
        self.refused(r"weight: got \(3, 5\), expected \(3, 4\)", lambda: wide.copy_to([nn.Linear(5, 3)] * 2))
        self.refused("weight: got none", lambda: wide.copy_to([nn.ReLU()] * 2))
        self.refused("bias: got none", lambda: wide[0].load_state_dict({"weight": torch.zeros(3, 4)}))
        wide.weight.data = torch.randn(2, 5, 5)
        self.refused(r"weight: got f32\[2, 5, 5\], expected f32\[2, 3, 4\]", lambda: wide(torch.randn(2, 2, 4)))

    def test_arguments_nested_otherwise(self):
        sample = {"x": torch.randn(2, 4)}, 2.0
        wide, batch = nw.compile([Dicts(), Dicts()], sample), torch.randn(2, 2, 4)
        self.assertEqual(tuple(wide({"x": batch}, 2.0).shape), (2, 2, 3))
        self.refused("KeyError: 'x'.*errors_test.py", lambda: wide({"y": batch}, 2.0))
        self.refused("TypeError", lambda: wide([batch], 2.0))
        self.refused("missing 1 required positional argument: 'scale'", lambda: wide({"x": batch}))
        self.refused("TypeError", lambda: nw.compile([Dicts()], ([sample[0]], 2.0)))
        self.refused("must be Tensor, not", lambda: nw.compile([nn.Linear(4, 3)], "x"))

    def test_dimensions_of_models(self):
        x, models = torch.randn(2, 4), [nn.Linear(4, 3) for _ in range(2)]
        for odd in ("a", 1.5, True, [0], (0, 0), {0: 1}):
            self.refused("in_dims: got", lambda: nw.compile(models, x, in_dims=odd))
            self.refused("in_dims: got", lambda: nw.compile(models, in_dims=odd)(torch.randn(2, 2, 4)))
        for far in (3, 5, -4):
            self.refused(rf"in_dims: got {far}, expected a dimension of", lambda: nw.compile(models, x, in_dims=far))
        self.refused("expected 2 models in dimension -1", lambda: nw.compile(models, in_dims=-1)(torch.randn(2, 2, 4)))
        two = nw.compile(lambda a, b: a + b, n=3)
        self.refused("input b: got .*expected 3 models", lambda: two(torch.randn(3, 2), torch.randn(2, 2)))

    def test_options(self):
        x, models = torch.randn(2, 4), [nn.Linear(4, 3)]
        self.refused("options: got int", lambda: nw.compile(models, x, options=5))
        self.refused("threads: got 'a'", lambda: nw.compile(models, x, options=nw.Options(threads="a")))
        self.refused("got bar, expected one of fold", lambda: nw.compile(models, x, options=nw.Options(passes_off={"bar"})))
        for name, wrong in (("threads", -3), ("rtol", -1.0), ("rtol", float("nan")), ("autotune_s", float("nan")), ("signatures", 0)):
            self.refused(rf"^\[options\] {name}: got {wrong}, expected a finite number of at least [01]; try {name}=[01]$",
                         lambda: nw.compile(models, x, options=nw.Options(**{name: wrong})))
        wide = nw.compile(models)
        for wrong in (-1, float("nan"), float("inf")):
            self.refused(rf"budget_s: got {wrong}", lambda: wide.benchmark(x[None], budget_s=wrong))
            self.refused(rf"rtol: got {wrong}", lambda: wide.validate(wrong))
        for wrong, says in (({"linaer": "baddbmm"}, "primitive: got linaer, expected a registered one; try linear"),
                            ({"linear": "none"}, "linear: got none, expected one of .*vmap, per_model"),
                            ({"*": "grouped"}, "got grouped, expected one of vmap, per_model")):
            self.refused(says, lambda: nw.compile(models, x, options=nw.Options(strategies=wrong)))

    def test_what_a_recording_cannot_follow(self):
        text = self.refused("numpy: got an array", lambda: nw.compile([Arrays()], torch.randn(4)))
        self.assertIn("errors_test.py:", text)
        self.assertNotIn("numpy", vars(torch.Tensor))  # all is as it was
        self.refused("recording: got one inside another", lambda: nw.compile([Compiles()], torch.randn(2, 4)))
        count = torch.zeros(4)
        self.refused(r"captured tensor f32\[4\]: got a change in place",
                     lambda: nw.compile(lambda x: x + count.add_(1), torch.randn(4), n=2))
        self.assertTrue(torch.equal(count, torch.zeros(4)))
        table = nn.Module()
        table.register_buffer("count", torch.zeros(4))

        def two():
            models = [Counts(table.count) for _ in range(2)]
            return nw.compile(models, torch.randn(4))
        self.refused("count: got a change of one tensor that all models hold", two)

    def test_packing(self):
        self.refused("models: got none", lambda: nw.pack([]))
        self.refused("argument 1 of model 1: got 3", lambda: nw.pack([(torch.ones(2), 2), (torch.ones(2), 3)]))
        self.refused("tensor 0 of model 1", lambda: nw.pack([torch.ones(2), torch.ones(3)]))
        self.refused("models", lambda: nw.unpack([torch.ones(2), torch.ones(3)]))
        self.refused("models: got a tensor without dimensions", lambda: nw.unpack([torch.ones(2), torch.tensor(1.0)]))
        self.refused(r"argument 0 of model 1: got \[1. 1.\], expected \[0. 0.\]", lambda: nw.pack([np.zeros(2), np.ones(2)]))
        self.assertEqual(nw.pack([np.ones(2), np.ones(2)]).tolist(), [1, 1])
        self.refused("argument: got layout torch.sparse_coo", lambda: nw.constant(torch.ones(2).to_sparse()))
        self.refused("argument: got a meta tensor", lambda: nw.constant(torch.ones(2, device="meta")))

    def test_another_torch(self):
        done = subprocess.run([sys.executable, "-c", "import torch; torch.__version__ = '2.12.0'; import nwide"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.strip().split("\n")[-1],
                         "ImportError: [nwide] torch: got 2.12.0, expected 2.11; try pip install torch==2.11.0")


class Config:
    def __init__(self, gain):
        self.gain = gain


class Acts(nn.Module):
    """Has something that forward uses and that is neither a tensor nor a number."""

    def __init__(self, act):
        super().__init__()
        self.linear, self.act = nn.Linear(4, 3), act

    def forward(self, x):
        return self.linear(x) * self.act.gain if isinstance(self.act, Config) else self.act(self.linear(x))


class Secret(nn.Module):
    def __init__(self, gain):
        super().__init__()
        self._gain, self._cache, self.lock = gain, None, object()

    def forward(self, x):
        return x * self._gain


def times(factor):
    return lambda x: x * factor


class OtherArchitectures(unittest.TestCase):
    """Models that compute different things with tensors of equal shapes."""

    def hooked(self, factor):
        module = nn.Linear(4, 3)
        module.register_forward_hook(lambda module, given, made: made * factor)
        return module

    def patched(self, factor):
        module = nn.Linear(4, 3)
        module.forward = times(factor)
        return module

    def refused(self, make, one, other, what):
        for models in ([make(one), make(other)], [make(one), make(other), make(one)]):
            for sample in (None, torch.randn(4)):
                with self.assertRaisesRegex(nw.Error, what) as caught:
                    nw.compile(models, sample)
                self.assertRegex(str(caught.exception), LINE)

    def test_they_are_refused_by_name(self):
        self.refused(Acts, torch.relu, torch.tanh, r"^\[compile\] the model itself.act of model 1: got .*tanh.*relu.* as in model 0")
        self.refused(Acts, times(2), times(3), r"\.act of model 1: got function times.*that differs")
        self.refused(Acts, functools.partial(torch.mul, other=2.0), functools.partial(torch.mul, other=3.0), r"\.act of model 1")
        self.refused(Acts, Config(2.0), Config(3.0), r"\.act of model 1")
        self.refused(Secret, 2.0, 3.0, r"\._gain of model 1: got 3.0, expected 2.0 as in model 0")
        self.refused(Secret, 0, 1, r"\._gain of model 1: got 1, expected 0 as in model 0")
        self.refused(self.hooked, 2, 3, r"\._forward_hooks of model 1")
        self.refused(self.patched, 2, 3, r"\.forward of model 1")

    def tied(self, names):
        module = nn.ModuleDict({name: nn.Linear(4, 4) for name in "abc"})
        module[names[1]].weight = module[names[0]].weight
        return module

    def optional(self, given):
        module = nn.Linear(4, 3)
        module.register_parameter("more", nn.Parameter(torch.ones(3)) if given else None)
        return module

    def holding(self, gain):
        module = nn.Linear(4, 3)
        module.gain = gain
        module.forward = lambda x: nn.functional.linear(x, module.weight) * gain
        return module

    def test_tensors_that_are_tied_or_missing_in_one_model(self):
        """What model 0 has as one tensor, or has not, would be computed with model 0's, or left out."""
        self.refused(self.tied, "ab", "bc", r"^\[compile\] b\.weight of model 1: got a tensor of its own, expected the tensor a.weight as in")
        self.refused(self.optional, False, True, r"^\[compile\] more of model 1: got a tensor of its own, expected none as in model 0")
        self.refused(self.optional, True, False, r"^\[compile\] more of model 1: got none, expected a tensor of its own as in model 0")

    def test_functions_that_hold_their_model(self):
        """A copy of the model has the same function, which would compute with model 0's tensors."""
        self.refused(self.holding, 2.0, 2.0, r"^\[compile\] the model itself\.forward of model 1: got a function that holds the model, "
                                             r"expected one of its arguments; try a method")

    def test_what_each_model_refers_to_of_its_own(self):
        class Refers(nn.GRU):
            def __init__(self):
                super().__init__(4, 4, 2)
                self.out = nn.Linear(4, 3)
                self.all, self.first, self.own = {self.out}, weakref.ref(self.out), self.report
                self._sizes = {"out": [4, 3]}

            def report(self, y):
                return self.out(y) * self._sizes["out"][0]

            def forward(self, x):
                return self.own(super().forward(x)[0])

        torch.manual_seed(1)
        models, x = [Refers() for _ in range(3)], torch.randn(3, 2, 5, 4)
        with torch.no_grad():
            self.assertLess((nw.compile(models)(x) - torch.stack([m(one) for m, one in zip(models, x)])).abs().max(), 1e-6)
        models[2]._sizes["out"][0] = 5
        with self.assertRaisesRegex(nw.Error, r"\._sizes of model 2: got {'out': \[5, 3\]}, expected {'out': \[4, 3\]} as in model 0"):
            nw.compile(models)

    def test_equal_ones_are_taken(self):
        torch.manual_seed(1)
        x = torch.randn(3, 2, 4)
        for make in (lambda: Acts(torch.tanh), lambda: Acts(times(2)), lambda: Acts(Config(2.0)), lambda: Secret(1.5),
                     lambda: Acts(functools.partial(torch.mul, other=2.0)), lambda: self.hooked(2), lambda: self.patched(3)):
            models = [make() for _ in range(3)]
            with torch.no_grad():
                self.assertLess((nw.compile(models)(x) - torch.stack([m(one) for m, one in zip(models, x)])).abs().max(), 1e-6)

    def test_a_model_that_is_frozen_beside_others(self):
        models = [nn.Linear(4, 3) for _ in range(3)]
        models[1].bias.requires_grad_(False)
        with self.assertRaisesRegex(nw.Error, r"bias of model 1: got requires_grad False, expected True as in model 0"):
            nw.compile(models)

    def test_training_refuses_them(self):
        data = torch.randn(20, 4), torch.randn(20, 3)
        draws = itertools.count(2.0)
        for given, lr in (([Acts(torch.relu), Acts(torch.tanh)], [0.1, 0.1]), (lambda: Acts(Config(next(draws))), [0.1, 0.2])):
            with self.assertRaisesRegex(nw.Error, r"^\[train\] the model itself.act of model 1: got "):
                nw.train(given, data=data, lr=lr, epochs=1, quiet=True, no_store=True)


class LateAssignments(unittest.TestCase):
    def test_they_are_refused(self):
        wide = nw.compile([nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.BatchNorm1d(3)) for _ in range(2)])
        for part, name, value in (("1", "p", 0.0), ("2", "momentum", 0.5)):
            with self.assertRaisesRegex(nw.Error, rf"^\[wide\] {part}.{name}: got an assignment after nw.compile"):
                setattr(wide.get_submodule(part), name, value)
        with self.assertRaisesRegex(nw.Error, r"^\[wide\] hook of 0: got one of a part"):
            wide.get_submodule("0").register_forward_hook(print)
        gained = nw.compile([Counts(torch.zeros(1)) for _ in range(2)])
        gained.count = torch.ones(2, 1)  # a tensor is a weight
        wide.note = "anything else is the user's"
        wide.get_submodule("1").train(False)

    def test_state_beside_tensors_is_refused(self):
        class Counted(nn.Linear):
            def get_extra_state(self):
                return {"calls": 1}

            def set_extra_state(self, state):
                self.seen = state

        models = [nn.Sequential(Counted(4, 3)) for _ in range(3)]
        wide, x = nw.compile(models), torch.randn(3, 2, 4)
        torch.testing.assert_close(wide(x), torch.stack([m(a) for m, a in zip(models, x)]))
        tensors = {name: torch.stack([m.get_parameter(name) for m in models]) for name, _ in wide.named_parameters()}
        for call in (wide.state_dict, nn.Sequential(wide).state_dict, wide[0].state_dict,
                     lambda: wide[0].load_state_dict(tensors)):
            with self.assertRaisesRegex(nw.Error, r"^\[state_dict\] 0: got get_extra_state, .*; try wide.copy_to\(models\)"):
                call()
        wide.load_state_dict(tensors)
        wide.get_parameter("0.bias").data.fill_(2)
        wide.copy_to(models)
        self.assertEqual(models[1].state_dict()["0.bias"].tolist(), [2, 2, 2])

    def test_weights_that_hooks_compute_are_refused(self):
        def normed():
            return nn.Sequential(nn.utils.weight_norm(nn.Linear(5, 4)), nn.Linear(4, 2))

        def pruned():
            layer = nn.Linear(5, 4)
            prune.l1_unstructured(layer, "weight", 0.4)
            return layer

        for make, text in ((normed, r"weight norm of 0: got torch.nn.utils.weight_norm, .*; try torch.nn.utils.parametrizations.weight_norm"),
                           (pruned, r"pruning of the model itself: got torch.nn.utils.prune, .*; try torch.nn.utils.prune.remove")):
            with self.subTest(make=make.__name__):
                with self.assertRaisesRegex(nw.Error, rf"^\[compile\] {text}"):
                    nw.compile([make() for _ in range(3)])
                with torch.no_grad(), self.assertRaisesRegex(nw.Error, rf"^\[compile\] {text}"):
                    nw.compile([make() for _ in range(3)])
                with self.assertRaisesRegex(nw.Error, rf"^\[train\] {text}"):
                    nw.train(make, data=(torch.randn(20, 5), torch.randn(20, 4)), loss="mse", seeds=2, epochs=1, quiet=True)
        of_spectrum = "spectral norm of 0: got torch.nn.utils.spectral_norm, .*; try torch.nn.utils.parametrizations.spectral"
        for mode in (True, False):
            with self.assertRaisesRegex(nw.Error, rf"^\[compile\] {of_spectrum}"):
                nw.compile([nn.Sequential(nn.utils.spectral_norm(nn.Linear(5, 4))).train(mode) for _ in range(3)])
        layers = [nn.utils.parametrizations.spectral_norm(nn.Linear(5, 4)).eval() for _ in range(3)]
        x = torch.randn(3, 2, 5)
        self.assertLess((nw.compile(layers)(x) - torch.stack([m(a) for m, a in zip(layers, x)])).abs().max(), 1e-5)
        layers = [pruned() for _ in range(3)]
        for layer in layers:
            prune.remove(layer, "weight")
        self.assertLess((nw.compile(layers)(x) - torch.stack([m(a) for m, a in zip(layers, x)])).abs().max(), 1e-5)

    def test_packed_sequences_are_named_and_the_way_out_works(self):
        class Last(nn.Module):
            def __init__(self, packs):
                super().__init__()
                self.layer, self.packs = nn.GRU(4, 5, batch_first=True), packs

            def forward(self, x, lengths):
                if self.packs:
                    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
                    return self.layer(packed)[1][0]
                at = (lengths - 1)[:, None, None].expand(-1, 1, 5)
                return self.layer(x)[0].gather(1, at)[:, 0]

        models, x, lengths = [Last(True) for _ in range(3)], torch.randn(3, 4, 7, 4), torch.tensor([7, 3, 5, 1])
        expected = torch.stack([m(a, lengths) for m, a in zip(models, x)])
        with self.assertRaisesRegex(nw.Error, r"^\[forward\] pack_padded_sequence: got a packed sequence, .*; try the recurrent layer on the"):
            nw.compile(models)(x, nw.constant(lengths))
        for m in models:
            m.packs = False
        self.assertLess((nw.compile(models)(x, lengths.expand(3, -1)) - expected).abs().max(), 1e-5)

    def test_batch_norm_without_momentum_is_named(self):
        models = [nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4, momentum=None)) for _ in range(3)]
        with self.assertRaisesRegex(nw.Error, r"^\[forward\] batch norm: got momentum=None in train mode.*; try momentum=0.1, or eval\(\)"):
            nw.compile(models)(torch.randn(3, 6, 5))
        nw.compile([m.eval() for m in models])(torch.randn(3, 6, 5))

        class Other(nn.Module):
            """Beside such a batch norm, what cannot be recorded is another operator."""

            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(5, momentum=None)

            def forward(self, x):
                return self.norm(x) * float(x.max())

        with self.assertRaisesRegex(nw.Error, r"data-dependent operator: got a Python number .* \(in the model itself, at "):
            nw.compile([Other().eval() for _ in range(3)])(torch.randn(3, 6, 5))

    def test_random_numbers_with_a_seed_of_their_own_are_refused(self):
        def drawn(x):
            return x * torch.rand(4, generator=torch.Generator().manual_seed(0))

        def ordered(x):
            return x[:, torch.randperm(4, generator=torch.Generator().manual_seed(0))]

        def seeded(x):
            torch.manual_seed(3)
            return x * torch.rand(4)

        def forked(x):
            with torch.random.fork_rng():
                return seeded(x)

        x = torch.randn(3, 5, 4)
        for f, text in ((drawn, r"^\[aten::rand\] generator: got one of the network's own, expected PyTorch's default one; try"),
                        (ordered, r"^\[aten::randperm\] generator: got one of the network's own"),
                        (forked, r"^\[forward\] torch.manual_seed: got a call of it"),
                        (seeded, r"^\[forward\] torch.manual_seed: got a call of it, expected random numbers .*; try a buffer")):
            with self.subTest(f=f.__name__), self.assertRaisesRegex(nw.Error, text):
                nw.compile(f, n=3)(x)
        nw.compile(lambda x: x * torch.rand(4, generator=torch.default_generator), n=3)(x)


if __name__ == "__main__":
    unittest.main()
