"""Gradients of PyTorch's own database of operators: three models with inputs and parameters of their own, in float64,
against PyTorch's for each model.

By hand, `operator_gradients_test.py --all [NAME…]` judges every sample, not the first one alone.
"""

import package

package.enter()

import json  # noqa: E402
import random  # noqa: E402
import re  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
from operators_test import N, copied, difference, draws_as_ever, judged, tensors  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import nwide as nw  # noqa: E402


NO_SCALE = 1e-10  # what is smaller is nothing but rounding
WRONG_IN_PYTORCH = {"as_strided_scatter"}  # its gradient by self has the places of the source and not the others
# What cannot be, by the reason that must be given.
REFUSED = {
    "data-dependent operator: got a Python number": {"nn_functional_gaussian_nll_loss", "tensor_split"},
    "data-dependent operator: got a result shape": {
        "combinations", "linalg_lstsq", "linalg_lstsq_grad_oriented", "masked_select"},
    "expected (torch.)?strided": {"sparse_mm_reduce", "to_sparse"},
}


def real(t):
    return isinstance(t, torch.Tensor) and t.is_floating_point() and t.layout == torch.strided


class Model(nn.Module):
    """An operator whose other tensors are parameters, where they are real numbers, and buffers."""

    def __init__(self, op, sample):
        super().__init__()
        leaves, self._spec = pytree.tree_flatten((sample.args, sample.kwargs))
        self._op, self._leaves = op, [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        for i, leaf in enumerate(leaves):
            if real(leaf):
                self.register_parameter(f"p{i}", nn.Parameter(leaf.detach().clone(), leaf.requires_grad))
            elif isinstance(leaf, torch.Tensor):
                self.register_buffer(f"b{i}", leaf.detach().clone())

    def forward(self, x):
        leaves = [getattr(self, f"p{i}", getattr(self, f"b{i}", leaf)) for i, leaf in enumerate(self._leaves)]
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        # Operators that write do so to a copy of their input.
        return self._op(pytree.tree_map_only(torch.Tensor, torch.clone, x), *args, **kwargs)


def samples(op, count):
    """For each sample N of its form, with numbers of their own."""
    drawn = []
    for seed in range(N):
        torch.manual_seed(seed)
        random.seed(seed)
        own = []
        for sample in op.sample_inputs("cpu", torch.float64, requires_grad=True):
            own.append(sample)
            if len(own) == count:
                break
        drawn.append(own)
    form = lambda s: [(t.shape, t.dtype) for t in tensors((s.input, s.args, s.kwargs))]  # noqa: E731
    fixed = lambda s: repr([leaf for leaf in pytree.tree_leaves((s.args, s.kwargs))  # noqa: E731
                            if not isinstance(leaf, torch.Tensor)])
    for first, *others in zip(*drawn):
        yield [s if form(s) == form(first) and fixed(s) == fixed(first) else first for s in (first, *others)]


def combined(outputs, i):
    """A random combination of model i's outputs; None where it has no gradients."""
    total = None
    for k, y in enumerate(outputs):
        if y.requires_grad and y.numel():
            generator = torch.Generator().manual_seed(100 * i + k)
            weights = torch.randn(y.shape, dtype=torch.float64, generator=generator).to(y.dtype)
            total = (0 if total is None else total) + (y * weights).sum().real
    return total


def wanted(t):
    return t.requires_grad and real(t)


def judge(op, drawn):
    """What became of a sample: "right", "none" where PyTorch has no gradients of it, or what is wrong."""
    def call(x, *args, **kwargs):
        return op(x, *args, **kwargs)

    def own(i, seed=1):
        model, x = Model(call, drawn[i]), copied(drawn[i].input)
        x = pytree.tree_map_only(torch.Tensor, lambda t: t.detach().requires_grad_(t.requires_grad), x)
        leaves = [t for t in tensors(x) if wanted(t)] + [p for p in model.parameters() if wanted(p)]
        torch.manual_seed(seed)
        total = combined(tensors(model(x)), i)
        return torch.autograd.grad(total, leaves, allow_unused=True) if leaves and total is not None else None

    try:
        expected, again = [own(i) for i in range(N)], own(0)
    except Exception as error:  # PyTorch's own
        return "none" if not isinstance(error, nw.Error) else str(error)
    if expected[0] is None:
        return "none"
    pairs = [(a, b) for others in (again, own(0, seed=2)) for a, b in zip(expected[0], others)]
    if any(a is not None and difference(a, b) for a, b in pairs):
        return "none"  # random
    models = [Model(call, s) for s in drawn]
    wide = nw.compile(models, (drawn[0].input,), options=nw.Options(tune=False, threads=1))
    x = nw.pack([pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, s.input) for s in drawn])
    asks = [wanted(t) for t in tensors(drawn[0].input)]
    for t, asked in zip(tensors(x), asks):
        t.requires_grad_(asked)
    leaves = [t for t in tensors(x) if wanted(t)] + [p for p in wide.parameters() if wanted(p)]
    outputs = tensors(wide(x))
    totals = [combined([y[i] for y in outputs], i) for i in range(N)]
    if None in totals:
        return "no gradients, expected some"
    got = torch.autograd.grad(sum(totals), leaves, allow_unused=True)
    if len(got) != len(expected[0]):
        return f"{len(got)} gradients, expected {len(expected[0])}"
    worst = 0.0
    for k, g in enumerate(got):
        for i in range(N):
            e = expected[i][k]
            if e is None or g is None:
                rest = g[i] if e is None and g is not None else e
                if rest is not None and rest.abs().max() > 0:
                    return f"gradient {k}: {'none' if g is None else 'one'}, expected {'none' if e is None else 'one'}"
                continue
            d = difference(g[i], e)
            if isinstance(d, str):
                return d
            if d and (g[i] - e).abs().max() > NO_SCALE:
                worst = max(worst, d)
    return "right" if worst < 1e-8 else f"difference {worst}"


def child(count):
    """Judges the operators that stdin names, and says so line by line."""
    from torch.testing._internal.common_methods_invocations import op_db
    draws_as_ever()
    torch.set_num_threads(1)
    names = set(json.load(sys.stdin))
    for op in op_db:
        if op.formatted_name not in names:
            continue
        print(json.dumps([op.formatted_name, "begun"]), flush=True)
        said = set()
        for drawn in samples(op, count):
            try:
                said.add(judge(op.op, drawn))
            except nw.Error as error:
                said.add(f"refused: {error}")
            except Exception as error:
                said.add(f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0])
        print(json.dumps([op.formatted_name, sorted(said)]), flush=True)


def database():
    program = ("import json; from torch.testing._internal.common_methods_invocations import op_db; import torch; print("
               "json.dumps([o.formatted_name for o in op_db if o.supports_autograd and o.supports_dtype(torch.float64, 'cpu')]))")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


class OperatorGradients(unittest.TestCase):
    def test_database(self):
        names = [name for name in database() if name not in WRONG_IN_PYTORCH]
        said = judged(names, 1, __file__)
        self.assertEqual(set(said), set(names))
        reasons = {name: reason for reason, those in REFUSED.items() for name in those}
        self.assertLessEqual(set(reasons), set(names))
        for name, verdict in said.items():
            with self.subTest(name):
                if name in reasons:
                    self.assertEqual([v for v in verdict if not re.search(f"^refused: .*{reasons[name]}", v)], [])
                else:
                    self.assertIn(verdict, (["right"], ["none"]))
        self.assertGreater(sum(verdict == ["right"] for verdict in said.values()), 500)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(int(sys.argv[2]))
    elif sys.argv[1:2] == ["--all"]:
        for operator, verdict in judged(sys.argv[2:] or database(), 10**6, __file__).items():
            if verdict != ["right"]:
                print(operator, *verdict, sep="\n  ")
    else:
        unittest.main()
