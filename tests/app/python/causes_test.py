"""Modules as people write them: what a recording follows is as the separate modules, what it cannot follow names the cause and a
way out, and the way out works."""

import package

package.enter()

import collections  # noqa: E402
import contextlib  # noqa: E402
import copy  # noqa: E402
import dataclasses  # noqa: E402
import enum  # noqa: E402
import functools  # noqa: E402
import io  # noqa: E402
import logging  # noqa: E402
import random  # noqa: E402
import threading  # noqa: E402
import typing  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import nwide as nw  # noqa: E402
from nwide.classes import contents  # noqa: E402

N = 3


@dataclasses.dataclass
class Known:
    y: torch.Tensor
    more: typing.Any = None


class DynamicCache:  # the name that transformers' models give theirs
    def __init__(self, y):
        self.layers = [y]


@dataclasses.dataclass
class Unknown:
    y: torch.Tensor


class Plain:
    def __init__(self, y):
        self.y = y


class Anew(Known):
    """A node whose leaves are made whenever pytree opens it."""


torch.export.register_dataclass(Known)
pytree.register_pytree_node(Anew, lambda o: ([o.y * 1.0, float(o.more) + 1 - 1], None), lambda leaves, _: Anew(*leaves))
Pair = collections.namedtuple("Pair", "a b")


class Net(nn.Module):
    """A linear layer, and what a function makes of it and of the arguments."""

    def __init__(self, function, seed=0, prepare=None):
        super().__init__()
        torch.manual_seed(seed)
        self.linear, self.scale = nn.Linear(4, 4), nn.Parameter(torch.tensor(2.0))
        self.register_buffer("mean", torch.zeros(4))
        self.calls, self.seen, self.function = 0, [], function
        if prepare is not None:
            prepare(self)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


def branches_on_sizes(m, x):
    return m.linear(x) if x.shape[0] > 3 and x.dtype is torch.float32 else x


def updates_a_buffer(m, x):
    m.mean.mul_(0.9).add_(0.1 * x.mean(0))
    return m.linear(x) - m.mean


def counts_without_use(m, x):
    m.calls += 1
    return m.linear(x)


def catches_its_own_error(m, x):
    try:
        return m.linear(x.view(99))
    except RuntimeError:
        return m.linear(x)


def computes_in_bfloat16(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return m.linear(x).float()


def gradient_by_func(m, x):
    return torch.func.grad(lambda one: m.linear(one).tanh().sum())(x)


def gradient_in_grad_mode(m, x):
    with torch.enable_grad():
        one = x.detach().requires_grad_()
        return torch.autograd.grad(m.linear(one).tanh().sum(), one)[0]


def repeats(m, x, times, *, scale=1.0, **more):
    for _ in range(times):
        x = m.linear(x)
    return x * scale + more.get("bias", 0)


def two_layers(m):
    m.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])


def distributed(m, x, validate):  # True is the default until torch.compile is imported
    y = m.linear(x)
    normal = torch.distributions.Normal(y, y.exp(), validate_args=validate)
    return torch.distributions.Categorical(logits=y, validate_args=validate).entropy(), normal.log_prob(x)


def samples_validated(m, x):
    """Where the arguments are validated no more, a value still may be."""
    normal = torch.distributions.Normal(m.linear(x), 1.0, validate_args=False)
    normal._validate_args = True
    return normal.log_prob(x)


FOLLOWED = {
    "distributions": (functools.partial(distributed, validate=False), {}),
    "sizes": (branches_on_sizes, {}), "buffer": (updates_a_buffer, {}), "counter": (counts_without_use, {}),
    "error": (catches_its_own_error, {}), "autocast": (computes_in_bfloat16, {}), "func.grad": (gradient_by_func, {}),
    "enable_grad": (gradient_in_grad_mode, {}), "compiled": (lambda m, x: m.linear(x), {"prepare": lambda m: m.compile()}),
    "layers": (lambda m, x: m.layers[1](m.layers[0](x)), {"prepare": two_layers}),
    "nested": (lambda m, x: {"a": [m.linear(x), None, "text", 3], "b": Pair(x + 1, (x.sum(),))}, {}),
    "dataclass": (lambda m, x: Known(m.linear(x), {"twice": x * 2}), {}),
    "objects": (lambda m, x: (m.linear(x), Plain([1.0, {"a": None}]), lambda: len(x), {"size", x.shape}), {}),
    "ordered": (lambda m, x: collections.OrderedDict(a=m.linear(x), b=collections.defaultdict(list, c=[x])), {}),
}


def counter(m, x):
    m.calls += 1
    return m.linear(x) * m.calls


def counts(m, x):
    m.calls += 1
    return m.linear(x), m.calls


def keeps(m, x):
    m.seen.append(m.linear(x))
    return x


def prints(m, x):
    with contextlib.redirect_stdout(io.StringIO()):
        print(m.linear(x).mean())
    return x


def gradient(m, x):
    one = x.detach().requires_grad_()
    return torch.autograd.grad(m.linear(one).sum(), one)[0]


def until_small(m, x):
    while x.abs().max() > 1:
        x = m.linear(x) * 0.1
    return x


def checks(m, x):
    assert not x.isnan().any()
    return m.linear(x)


def steps(m, x):
    return m.linear(x) if m.mean.sum() < 10 else x


def scripted(m):
    m.linear = torch.jit.script(m.linear)


def wide_inside(m):
    m.inner = nw.compile([nn.Linear(4, 4)])


def plain_list(m):
    m.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]


def encoder(m):
    m.encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1).eval()


def padded(m, x):
    return m.encoder(x[None], src_key_padding_mask=torch.arange(6)[None] > 3)


def plain_dict(m):
    m.tables = {"a": [torch.randn(4)]}


NUMBER = (r"got a Python number that depends on an input or parameter, .* try a tensor in place of item.*torch.where.*nw.constant\(...\) "
          "in every call")
VALIDATED = r"torch.distributions: got a data-dependent check of values, .*; try validate_args=False \(in "
REFUSED = {
    "distribution": (functools.partial(distributed, validate=True), {}, VALIDATED),
    "value of a distribution": (samples_validated, {}, VALIDATED),
    "item": (lambda m, x: m.linear(x) * x.mean().item(), {}, NUMBER),
    "float of a parameter": (lambda m, x: m.linear(x) / float(m.scale), {}, NUMBER),
    "branch on a buffer": (steps, {}, NUMBER), "loop until": (until_small, {}, NUMBER), "assertion": (checks, {}, NUMBER),
    "tolist": (lambda m, x: m.linear(x) + sum(x[0].tolist()), {}, "tolist: got Python numbers .*; try torch's own operators"),
    "mask": (lambda m, x: m.linear(x[x[:, 0] > 0]), {}, r"a result shape that depends .*; try a mask of fixed size.*nw.constant\(...\) in every call"),
    "print": (prints, {}, "print: got a tensor's values as text, .*; try its shape"),
    "counter in use": (counter, {}, "got another one in each call, in which calls changes, .*; try a buffer in place of calls"),
    "result that counts": (counts, {}, r"^\[forward\] result that is no tensor: got another one in each call, in which calls changes, .*; "
                           "try a buffer in place of calls"),
    "result of chance": (lambda m, x: {"y": m.linear(x), "more": Plain([random.random()])}, {},
                         r"^\[forward\] result that is no tensor: got another one in another call, .*; try torch's own random numbers"),
    "size by chance": (lambda m, x: [m.linear(x)] * random.randint(1, 1000), {}, "got another one in another call"),
    "list of results": (keeps, {}, r"^\[seen\] state: got a tensor .*; try register_buffer"),
    "autograd.grad": (gradient, {}, r"autograd: got a gradient inside of forward.*; try torch.func.grad, or torch.enable_grad\(\) "
                      "around it for a gradient with respect to an input"),
    "cond": (lambda m, x: torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (m.linear(x),)), {},
             "torch.cond: got functions that .*; try torch.where"),
    "padding mask": (padded, {"prepare": encoder}, r"nested tensors: got what nn.TransformerEncoder .*enable_nested_tensor=False\)"),
    "dataclass": (lambda m, x: Unknown(m.linear(x)), {}, r"result: got tensors inside of Unknown.*; try torch.export.register_dataclass\(Unknown\)"),
    "class": (lambda m, x: Plain({"a": [m.linear(x)]}), {}, "result: got tensors inside of Plain.*; try a tuple or dict"),
    "cache": (lambda m, x: DynamicCache(m.linear(x)), {}, "result: got tensors inside of DynamicCache.*; try use_cache=False"),
    "set": (lambda m, x: {m.linear(x)}, {}, "result: got tensors inside of set.*; try a tuple or dict"),
    "generator": (lambda m, x: (m.linear(x) for _ in range(2)), {}, "result: got tensors inside of generator.*; try a tuple or dict"),
    "script": (lambda m, x: m.linear(x), {"prepare": scripted}, "linear: got a module of TorchScript, .*; try the module as it was before"),
    "wide module": (lambda m, x: m.inner(x[None])[0], {"prepare": wide_inside}, "inner: got a wide module, .*; try its models"),
    "plain list": (lambda m, x: m.layers[0](x), {"prepare": plain_list}, "layers of model 1: got tensors of its own in a list.*; try nn.ModuleList"),
    "plain dict": (lambda m, x: x + m.tables["a"][0], {"prepare": plain_dict}, "tables of model 1: got tensors of its own in a dict.*; try nn.Mod"),
}


def leaves(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Causes(unittest.TestCase):
    def same(self, function, arguments, **prepared):
        models = [Net(function, i, **prepared) for i in range(N)]
        args, kwargs = nw.pack(arguments)
        wide = nw.compile(copy.deepcopy(models))
        for _ in range(2):
            got = wide(*args, **kwargs)
            expected = [model(*own, **more) for model, (own, more) in zip(models, arguments)]
            self.assertIs(type(got), type(expected[0]))
            self.assertEqual(len(leaves(got)), len(leaves(expected[0])))
            for y, *own in zip(leaves(got), *map(leaves, expected)):
                torch.testing.assert_close(y, torch.stack(own))

    def refused(self, words, call):
        with self.assertRaises(nw.Error) as caught:
            call()
        self.assertRegex(str(caught.exception), r"^\[[^\]]+\] [^\n]+: got [^\n]+, expected [^\n]+; try [^\n]+$")
        self.assertRegex(str(caught.exception), words)

    def test_what_is_followed(self):
        for name, (function, prepared) in FOLLOWED.items():
            with self.subTest(name):
                self.same(function, [((torch.randn(6, 4),), {}) for _ in range(N)], **prepared)

    def test_numbers_and_names_among_the_arguments(self):
        self.same(repeats, [((torch.randn(6, 4), 3), {"scale": 0.5, "bias": torch.randn(4)}) for _ in range(N)])
        self.same(lambda m, known: m.linear(known.y) * known.more, [((Known(torch.randn(6, 4), 2.0),), {}) for _ in range(N)])

    def test_nodes_that_make_their_leaves_anew(self):
        def writes(m, known):
            known.more *= 2
            return m.linear(known.y)

        x = torch.randn(N, 6, 4)
        self.same(lambda m, known: m.linear(known.y) * known.more, [((Anew(one, 2.5),), {}) for one in x])
        self.refused("argument: got a list or dict that forward writes to",
                     lambda: nw.compile([Net(writes, i) for i in range(N)])(Anew(x, 2.5)))

    def test_what_is_not_followed(self):
        x = torch.randn(N, 6, 4)
        for name, (function, prepared, words) in REFUSED.items():
            for sample in (False, True):
                with self.subTest(name, sample=sample):
                    def call():
                        models = [Net(function, i, **prepared) for i in range(N)]
                        nw.compile(models, x[0]) if sample else nw.compile(models)(x)
                    self.refused(words, call)

    def test_locks_and_loggers_are_alike(self):
        for make in (threading.Lock, threading.RLock, threading.Condition, lambda: logging.Logger("one")):
            own = Known(None, make())
            before = contents(own)
            own.more = make()
            self.assertEqual(before, contents(own))
            self.same(lambda m, x, make=make: (m.linear(x), Plain(make())), [((torch.randn(6, 4),), {}) for _ in range(N)])

    def test_results_of_classes_made_in_forward(self):
        def makes(m, x, number=lambda: 2.0):
            class Kind(enum.Enum):
                ONE = 1

            @dataclasses.dataclass
            class Result:
                size: int
                scale = number()

                def twice(self):
                    return 2 * self.size

            class Plain:
                size = x.shape[0]
            return m.linear(x), Result(x.shape[0]), Plain, Kind.ONE

        x = torch.randn(N, 6, 4)
        y, result, plain, kind = nw.compile([Net(makes, i) for i in range(N)])(x)
        self.assertEqual((result.twice(), plain.size, kind.name, y.shape), (12, 6, "ONE", (N, 6, 4)))
        self.refused("result that is no tensor", lambda: nw.compile([Net(functools.partial(makes, number=random.random), i) for i in range(N)])(x))

    def test_tensors_hidden_among_the_arguments(self):
        models = [Net(lambda m, batch: m.linear(batch.y), i) for i in range(N)]
        words = "got tensors inside of Unknown"
        self.refused(f"argument: {words}", lambda: nw.compile(models)(Unknown(torch.randn(N, 6, 4))))
        self.refused(f"argument: {words}", lambda: nw.compile(models, Unknown(torch.randn(6, 4))))
        self.refused(f"argument 0 of model 0: {words}", lambda: nw.pack([Unknown(torch.randn(6, 4)) for _ in range(N)]))

    def test_lists_of_what_is_registered_or_the_same(self):
        """A recurrent layer's own list of its weights; one table in the list of every model."""
        table, x = torch.randn(4), torch.randn(N, 6, 5, 4)

        def prepare(m):
            m.recurrent, m.tables = nn.GRU(4, 4, batch_first=True), [table, "text"]

        self.same(lambda m, x: m.recurrent(x)[0] + m.tables[0], [((one,), {}) for one in x], prepare=prepare)


if __name__ == "__main__":
    unittest.main()
