"""What a call costs, what it leaves behind, and where it may be made."""

import package

package.enter()

import array  # noqa: E402
import contextvars  # noqa: E402
import copy  # noqa: E402
import dataclasses  # noqa: E402
import functools  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import statistics  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
import unittest  # noqa: E402
import zoneinfo  # noqa: E402
from unittest import mock  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402
from nwide import recording  # noqa: E402
from nwide.classes import contents  # noqa: E402
from nwide.results import Benchmark  # noqa: E402


def quickest_us(call, calls=500, rounds=20):
    """Of several rounds, since the machine has other things to do."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls * 1e6)
    return best


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as text:
        return int(text.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def deep(layers=20):
    return nn.Sequential(*[nn.Linear(4, 4) for _ in range(layers)]).eval()


def stack(models, x):
    with torch.no_grad():
        return torch.stack([m(one) for m, one in zip(models, x)])



def compiles():
    try:
        torch.compile(lambda x: (x + 1).sin())(torch.ones(3))
    except Exception:
        return False
    return True


class Calls(unittest.TestCase):
    def test_overhead_is_below_20_us(self):
        for layers in (1, 20):
            wide = nw.compile([deep(layers) for _ in range(2)], torch.randn(2, 4)).freeze()
            x = torch.randn(2, 2, 4)
            wide(x)
            core = wide._last()
            for gradients in (False, True):
                with torch.set_grad_enabled(gradients):
                    over = quickest_us(lambda: wide(x)) - quickest_us(lambda: core.run((x,), ()))
                    self.assertLess(over, 20, f"{layers} layers, gradients {gradients}")

    def test_memory_is_flat(self):
        models = [deep(2) for _ in range(3)]
        x = torch.randn(3, 5, 4)
        for frozen in (False, True):
            wide = nw.compile(models, x[0])
            wide.freeze(frozen)
            with torch.no_grad():
                for _ in range(10_000):
                    wide(x)
                before = resident_bytes()
                for _ in range(100_000 if frozen else 20_000):
                    wide(x)
            self.assertLess(resident_bytes() - before, 2 << 20)

    def test_a_part_in_a_mode_of_its_own(self):
        torch.manual_seed(0)
        models = [nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).train() for _ in range(3)]
        wide = nw.compile(models, torch.randn(6, 4))
        x = torch.randn(3, 6, 4)
        for module in (wide, *models):
            module.get_submodule("1").eval()
            module.get_submodule("2").eval()
        before = wide.state_dict()["1.running_mean"].clone()
        with torch.no_grad():
            torch.testing.assert_close(wide(x), stack(models, x))
        torch.testing.assert_close(wide.state_dict()["1.running_mean"], before, rtol=0, atol=0)
        for module in (wide, *models):
            module.get_submodule("1").training = True
        with torch.no_grad():
            torch.testing.assert_close(wide(x), stack(models, x))
        self.assertFalse(torch.equal(wide.state_dict()["1.running_mean"], before))


@dataclasses.dataclass
class Unseen:
    scale: float = dataclasses.field(default=1.0, repr=False)


class Named:
    """Does not show what it holds."""

    __hash__ = None

    def __init__(self, scale):
        self.scale = scale

    def __repr__(self):
        return "Named"


class Slotted:
    __slots__ = ("__scale",)

    def __init__(self, scale):
        self.__scale = scale

    @property
    def scale(self):
        return self.__scale

    def __eq__(self, other):
        return isinstance(other, Slotted)

    def __hash__(self):
        return 0


class Called:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, value):
        return value * self.scale


class Part(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.scale, self.weight = 1.0, nn.Parameter(torch.ones(shape, dtype=torch.float64), requires_grad=False)

    def forward(self, value):
        return value * self.weight * self.scale


class Holder:
    shared = 1.0

    def __init__(self):
        self.inner, self.many = Called(1.0), [1.0]
        self.inner.holder = self  # objects may hold themselves


def scale_of(how, y):
    return y * how.scale


class Kinds(unittest.TestCase):
    """What is no tensor among the arguments: a call with others is another kind of call."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4).double()

        def forward(self, x, how, function=None):
            y = self.linear(x)
            return how(y) if function is None else function(how, y)

    def setUp(self):
        torch.manual_seed(0)
        self.models = [self.Net() for _ in range(3)]
        self.wide = nw.compile(copy.deepcopy(self.models), options=nw.Options(tune=False))
        self.x = torch.randn(3, 5, 4, dtype=torch.float64)

    def check(self, how, function=None):
        with torch.no_grad():
            expected = torch.stack([m(one, how, function) for m, one in zip(self.models, self.x)])
            torch.testing.assert_close(self.wide(self.x, how, function), expected, rtol=1e-12, atol=1e-12)

    def test_objects_that_look_alike(self):
        for kind in (Unseen, Named, Slotted):
            for scale in (1.0, 3.0, -0.0, 1.0):
                with self.subTest(kind.__name__, scale=scale):
                    self.check(kind(scale), scale_of)

    def test_attributes_that_change(self):
        shared, many, default, keyword = Called(1.0), [1.0], {"scale": 1.0}, [1.0]

        def closes(y):
            return y * many[0]

        def defaults(y, scale=default, *, more=keyword):
            return y * scale["scale"] * more[0]

        part, weighted, scalar, holder = Part(4), Part(4), Part(()), Holder()
        cases = {
            "callable": (shared, lambda v: setattr(shared, "scale", v)),
            "partial": (functools.partial(torch.mul, shared.scale), None),
            "method": (shared.__call__, lambda v: setattr(shared, "scale", v)),
            "closure": (closes, lambda v: many.__setitem__(0, v)),
            "default": (defaults, lambda v: default.update(scale=v)),
            "keyword": (defaults, lambda v: keyword.__setitem__(0, v)),
            "part": (part, lambda v: setattr(part, "scale", v)),
            "weight": (weighted, lambda v: weighted.weight.data.fill_(v)),
            "weight of no dimensions": (scalar, lambda v: scalar.weight.data.fill_(v)),
            "another weight": (weighted, lambda v: setattr(weighted, "weight", nn.Parameter(torch.full((4,), v).double(), False))),
        }
        for name, (how, change) in cases.items():
            for value in (2.0, 3.0, 2.0) if change else (2.0,):
                with self.subTest(name, value=value):
                    self.check(how)
                    change and change(value)
                    self.check(how)
        for name, change in (("inner", lambda v: setattr(holder.inner, "scale", v)), ("item", lambda v: holder.many.__setitem__(0, v)),
                             ("class", lambda v: setattr(Holder, "shared", v))):
            for value in (2.0, 3.0, 1.0):
                with self.subTest(name, value=value):
                    change(value)
                    self.check(holder, lambda how, y: y * how.inner.scale * how.many[0] * how.shared)

    def test_modules_that_change(self):
        part = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU()).double().requires_grad_(False).eval()

        def put(name, value):
            part[0]._buffers[name] = value

        hooks = []
        for change in (lambda: setattr(part[1], "p", 0.25), part.train, lambda: setattr(part[0], "weight", None),
                       lambda: put("more", torch.ones(())), lambda: part[0].more.fill_(2), lambda: setattr(part[0].more, "data", torch.ones(3)),
                       lambda: hooks.append(part[2].register_forward_hook(lambda m, args, y: 2 * y)), lambda: hooks[0].remove(),
                       lambda: part[2].register_forward_pre_hook(print), lambda: setattr(part[2], "forward", torch.tanh),
                       lambda: part.__setitem__(2, nn.Tanh()), lambda: setattr(part, "settings", {"scale": [1.0]}),
                       lambda: part.settings["scale"].append(2.0), lambda: setattr(part[2], "known", True),
                       lambda: setattr(part[2], "known", 1), lambda: part.append(nn.Linear(2, 2)), lambda: part.pop(0)):
            before = contents(part)
            self.assertEqual(before, contents(part))
            self.assertNotEqual(before, contents(copy.deepcopy(part)))
            change()
            self.assertNotEqual(before, contents(part))

    def test_a_large_module_costs_a_walk_through_its_parts(self):
        layers = nn.ModuleList([nn.TransformerEncoderLayer(8, 2, 8) for _ in range(24)])
        walk, cost = (quickest_us(call, 10, 10) for call in (lambda: list(layers.modules()), lambda: contents(layers)))
        self.assertLess(cost, 20 * walk)

    def test_another_object_has_the_program_of_the_first_but_not_what_became_of_it(self):
        one = Unseen(2.0)
        self.check(one, scale_of)
        one.scale = 5.0
        self.x = self.x[:, :3]  # another size is recorded again
        with mock.patch.object(recording, "look", side_effect=AssertionError):
            self.check(Unseen(2.0), scale_of)

    def test_gradients_are_those_of_the_call(self):
        how = Unseen(2.0)
        x = self.x.clone().requires_grad_()
        y = self.wide(x, how, scale_of)
        how.scale = 3.0
        y.sum().backward()
        own = self.x.clone().requires_grad_()
        sum(m(one, Unseen(2.0), scale_of).sum() for m, one in zip(self.models, own)).backward()
        torch.testing.assert_close(x.grad, own.grad, rtol=1e-12, atol=1e-12)

    def test_the_default_dtype(self):
        class Makes(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(1, 4).double()

            def forward(self, i):
                return torch.zeros(2) + 1 / 3, i / 7, self.linear((i / 7).double()[..., None]), torch.tensor(1.5)

        models, i = [Makes() for _ in range(3)], torch.arange(6).view(3, 2)
        wide = nw.compile(copy.deepcopy(models))
        gradients, before = [], torch.get_default_dtype()
        for dtype in (before, torch.float64, before):
            torch.set_default_dtype(dtype)
            try:
                for _ in range(2):
                    got, expected = wide(i), [m(one) for m, one in zip(models, i)]
                    for k, each in enumerate(zip(*expected)):
                        self.assertEqual(got[k].dtype, each[0].dtype)
                        torch.testing.assert_close(got[k], torch.stack(each), rtol=1e-12 if dtype is torch.float64 else 1e-6, atol=0)
                wide.zero_grad()
                got[2].sum().backward()
                gradients.append(wide.get_parameter("linear.weight").grad[..., 0])
            finally:
                torch.set_default_dtype(before)
        for got, dtype in zip(gradients, (before, torch.float64, before)):
            torch.testing.assert_close(got, (i.to(dtype) / 7).double().sum(1)[:, None].expand(3, 4), rtol=1e-12, atol=0)

    def test_what_python_cannot_look_at_is_refused(self):
        def drawn(y):
            return y * next(numbers)

        def long(y):
            return y * many[0]["a"]

        numbers, many = iter((1.0, 2.0)), [{"a": 1.0} for _ in range(20_000)]
        for how, got in ((drawn, "a function that holds a tuple_iterator"), (long, "a function that holds more than 10000 objects"),
                         (torch.Generator(), "a Generator")):
            with self.assertRaisesRegex(nw.Error, rf"^\[run\] argument: got {got}, expected what Python can look at, to tell this call "
                                                  r"from others; try numbers, text, functions and objects of these$"):
                self.wide(self.x, how)

    def test_what_holds_too_much_is_itself(self):
        long, deep_one = Called(2.0), Called(2.0)
        long.log, deep_one.log = [{"a": 1.0} for _ in range(20_000)], []
        for _ in range(200):
            deep_one.log = [deep_one.log]
        for how in (long, deep_one, Unseen(long)):
            function = scale_of if isinstance(how, Called) else lambda how, y: y * how.scale.scale
            for _ in range(2):
                self.check(how, function)
            self.assertEqual(contents(how), contents(copy.copy(how) if isinstance(how, Unseen) else how))
            self.assertNotEqual(contents(how), contents(copy.deepcopy(how)))

    def test_values_and_objects_of_c(self):
        for made in (lambda: torch.finfo(torch.float32), lambda: torch.iinfo(torch.int8), lambda: array.array("d", [1.0]),
                     *([lambda: zoneinfo.ZoneInfo.no_cache("UTC")] if "UTC" in zoneinfo.available_timezones() else [])):
            self.assertEqual(contents(made()), contents(made()))
            self.assertEqual(contents(Unseen(made())), contents(Unseen(made())))
        self.assertNotEqual(contents(array.array("d", [1.0])), contents(array.array("d", [2.0])))
        self.assertNotEqual(contents(torch.finfo(torch.float32)), contents(torch.finfo(torch.float64)))
        for held, other in ([contextvars.ContextVar("a") for _ in range(2)], [torch.Generator() for _ in range(2)],
                            [np.random.default_rng() for _ in range(2)]):
            self.assertEqual(contents(Unseen(held)), contents(Unseen(held)))
            self.assertNotEqual(contents(Unseen(held)), contents(Unseen(other)))

    def test_the_same_again_compiles_nothing(self):
        scripted = torch.jit.script(nn.Linear(4, 4).double().requires_grad_(False))
        for how in (Called(2.0), Part(4), torch.relu, functools.partial(torch.mul, 2.0), lambda y: y * 2, scripted):
            self.check(how)
            with mock.patch.object(recording, "record", side_effect=AssertionError):
                self.check(how)


class Writes(unittest.TestCase):
    """What forward writes to its arguments is refused: a program would not write it."""

    def net(self, function):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4).double()

            def forward(self, *args, **kwargs):
                return function(self, *args, **kwargs)

        torch.manual_seed(0)
        return [Net() for _ in range(3)]

    def test_lists_and_dicts(self):
        def adds(m, batch):
            batch["out"] = m.linear(batch["x"])
            return batch["out"].sum()

        def takes(m, batch):
            return m.linear(batch.pop("x"))

        def puts(m, batch):
            batch["x"] = batch["x"] + 1
            return m.linear(batch["x"])

        def appends(m, batch, log=None):
            log.append(batch["x"].shape)
            return m.linear(batch["x"])

        def nested(m, batch):
            batch["more"][0]["seen"] = True
            return m.linear(batch["x"])

        x = torch.randn(3, 5, 4, dtype=torch.float64)
        for function in (adds, takes, puts, appends, nested):
            with self.subTest(function.__name__):
                wide = nw.compile(self.net(function))
                more = {"log": []} if function is appends else {}
                with self.assertRaisesRegex(nw.Error, r"^\[forward\] argument: got a list or dict that forward writes to, expected arguments "
                                                      r"left as they are; try a copy, .*\(in the model itself"):
                    wide({"x": x, "more": [{}]}, **more)

    def test_objects(self):
        def counts(m, x, log):
            log.count += 1
            return m.linear(x)

        def appends(m, x, log):
            log.seen.append(x.shape)
            return m.linear(x)

        for function in (counts, appends):
            log = Called(1.0)
            log.count, log.seen = 0, []
            with self.subTest(function.__name__), self.assertRaisesRegex(
                    nw.Error, r"^\[forward\] argument: got a change of what it holds in every call, expected an argument left as it is; try "):
                nw.compile(self.net(function))(torch.randn(3, 5, 4, dtype=torch.float64), log)

    def test_what_is_written_to_copies(self):
        def own(m, batch, **more):
            scale = more.pop("scale")
            batch = dict(batch)
            batch["x"] = batch["x"] * scale
            batch["out"] = m.linear(batch["x"])
            return batch

        def keeps(m, batch, scale):
            if not hasattr(scale, "known"):  # what is found at the first use
                scale.known = 2 * scale.scale
            return {"out": m.linear(batch["x"]) * scale.known}

        x = torch.randn(3, 5, 4, dtype=torch.float64)
        for function, scale in ((own, 2.0), (keeps, Called(2.0))):
            models = self.net(function)
            wide = nw.compile(copy.deepcopy(models))
            for _ in range(2):
                with torch.no_grad():
                    got, expected = wide({"x": x}, scale=scale), [m({"x": one}, scale=scale) for m, one in zip(models, x)]
                for name in expected[0]:
                    torch.testing.assert_close(got[name], torch.stack([e[name] for e in expected]), rtol=1e-12, atol=1e-12)


class Processes(unittest.TestCase):
    def test_a_forked_process_computes(self):
        models = [nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval() for _ in range(8)]
        x = torch.randn(8, 32, 64)
        wide = nw.compile(models, x[0], options=nw.Options(threads=2))
        with torch.no_grad():
            expected = wide(x)
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)  # as a DataLoader's worker does
            with torch.no_grad():
                os._exit(0 if torch.allclose(wide(x), expected, rtol=1e-5, atol=1e-6) else 1)
        for _ in range(600):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.05)
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self.fail("the forked process hangs")
        self.assertEqual(status, 0)

    def test_a_process_forked_off_while_another_thread_compiles(self):
        from nwide import module

        held, done = threading.Event(), threading.Event()

        def hold():
            with module.COMPILING:
                held.set()
                done.wait()

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            nw.compile([deep(1) for _ in range(2)], torch.randn(2, 4))
            os._exit(0)
        done.set()
        holder.join()
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_in_workers_of_a_data_loader(self):
        models = [deep(2) for _ in range(4)]
        wide = nw.compile(models, torch.randn(4), options=nw.Options(threads=2))
        wide(torch.randn(4, 4))

        class Features(torch.utils.data.Dataset):
            def __len__(self):
                return 6

            def __getitem__(self, i):
                with torch.no_grad():
                    return wide(torch.full((4, 4), float(i)))

        loader = torch.utils.data.DataLoader(Features(), batch_size=None, num_workers=2, timeout=60)
        for i, got in enumerate(loader):
            torch.testing.assert_close(got, stack(models, torch.full((4, 4), float(i))))


class Contest(unittest.TestCase):
    def test_vmap_is_among_the_baselines(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.norm = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)
                self.tied = nn.Linear(5, 5)
                self.again = self.tied

            def forward(self, x, *, scale):
                y = self.norm(self.conv(x)).relu().mean((-1, -2))
                return self.again(self.tied(y)) * scale

        for training in (False, True):
            models = [Net().train(training) for _ in range(3)]
            wide = nw.compile(models, {"x": torch.randn(2, 3, 7, 7), "scale": torch.randn(1)})
            before = {name: t.clone() for name, t in wide.state_dict().items()}
            result = wide.benchmark(torch.randn(3, 2, 3, 7, 7), scale=torch.randn(3, 1), budget_s=0.05)
            self.assertTrue(result.passed, result)
            rows = {row.get("name"): row for row in result.case["baselines"]}
            self.assertGreater(rows["vmap"]["median_ns"], 0, result.case["notes"])
            for name, t in wide.state_dict().items():
                torch.testing.assert_close(t, before[name], rtol=0, atol=0)

    def test_the_dtype_is_the_weights(self):
        for dtype, name in ((torch.float32, "f32"), (torch.float64, "f64"), (torch.bfloat16, "bf16")):
            wide = nw.compile([nn.Linear(4, 3).to(dtype) for _ in range(2)])
            result = wide.benchmark(torch.randn(2, 5, 4, dtype=dtype), budget_s=0.05)
            self.assertEqual(result.case["dtype"], name)
        tables = nw.compile([nn.Embedding(5, 3).double() for _ in range(2)])
        self.assertEqual(tables.benchmark(torch.randint(0, 5, (2, 7)), budget_s=0.05).case["dtype"], "f64")
        for disturbed, words in ((True, ", disturbed"), (False, "")):  # by other programs
            shown = Benchmark({**result.case, "disturbed": disturbed})
            self.assertEqual(shown.cells(shown.trial)[-1], (shown.trial["verdict"] or shown.trial["status"]) + words)
            self.assertEqual(repr(shown).count("disturbed"), disturbed)

    def test_what_is_compiled_is_not_recorded_again(self):
        x = torch.randn(3, 2, 4)
        wide = nw.compile([deep(2) for _ in range(3)])
        with torch.no_grad():
            wide(x)
        with mock.patch.object(recording.Recorder, "__call__", autospec=True,
                               side_effect=recording.Recorder.__call__) as recorded:
            self.assertTrue(wide.benchmark(x, budget_s=0.05).passed)
        self.assertEqual(recorded.call_count, 0)

    @unittest.skipUnless(compiles(), "this Python's torch.compile finds no compiler")
    def test_benchmark_beside_torch_compile(self):
        models = [nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)) for _ in range(3)]
        wide = nw.compile(models, torch.randn(4, 5))
        result = wide.benchmark(torch.randn(3, 4, 5), budget_s=0.05, compiled=True)
        names = [b["name"] for b in result.case["baselines"]]
        self.assertTrue(result.passed, result)
        self.assertLessEqual({"loop", "vmap", "torch.compile", "torch.compile vmap"}, set(names), result.case["notes"])
        rounds = len(result.trial["samples_ns"])  # in common
        best = min(result.case["baselines"], key=lambda b: statistics.median(b["samples_ns"][:rounds]))
        self.assertEqual(result.trial["speedup"]["vs_best_baseline"]["name"], best["name"])
        for name in ("torch.compile", "torch.compile vmap"):
            self.assertRegex(" ".join(result.case["notes"]), rf"{name}: its first call took \d+\.\d s")

    def test_what_vmap_cannot_do_is_said(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.randn(4)  # registered nowhere, different in every model

            def forward(self, x):
                return x * self.table

        wide = nw.compile([Net() for _ in range(2)], torch.randn(4))
        result = wide.benchmark(torch.randn(2, 4), budget_s=0.05)
        self.assertTrue(result.passed, result)
        self.assertIn("[vmap] table: got a tensor outside of parameters and buffers", " ".join(result.case["notes"]))


class Around(unittest.TestCase):
    def test_parametrizations_that_are_cached(self):
        """Around a call that compiles, one that compiles gradients, and one that compiles nothing."""
        models = [nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)) for _ in range(3)]
        wide, x = nw.compile(copy.deepcopy(models)), torch.randn(3, 2, 4)
        for needs in (False, True, True):
            wide.zero_grad()
            with torch.set_grad_enabled(needs), nn.utils.parametrize.cached():
                y = wide(x)
                if needs:
                    y.square().sum().backward()
            for i, (model, one) in enumerate(zip(models, x)):
                model.zero_grad()
                own = model(one)
                torch.testing.assert_close(y[i], own)
                own.square().sum().backward()
                for name, p in wide.named_parameters() if needs else ():
                    torch.testing.assert_close(p.grad[i], model.get_parameter(name).grad)


if __name__ == "__main__":
    unittest.main()
