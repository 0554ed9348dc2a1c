"""PyTorch's own database of operators: each as three models with inputs of their own, other arguments captured.

By hand, `operators_test.py --all [NAME…]` judges every sample, not the first ones alone.
"""

import package

package.enter()

import concurrent.futures  # noqa: E402
import itertools  # noqa: E402
import json  # noqa: E402
import random  # noqa: E402
import re  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import nwide as nw  # noqa: E402

N = 3
FIRST = 2  # samples of each operator
DRAWS = 40  # calls of an operator that draws
PROCESSES = 2
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
# What cannot be, by the reason that must be given.
REFUSED = {
    "data-dependent operator: got a Python number": {"allclose", "equal", "item"},
    "data-dependent operator: got a result shape": {
        "argwhere", "combinations", "linalg_lstsq", "linalg_lstsq_grad_oriented", "masked_select", "nonzero", "unique",
        "unique_consecutive"},
    "expected (torch.)?strided": {"sparse_mm_reduce", "sparse_sampled_addmm", "to_sparse"},
}


class Model(nn.Module):
    """An operator with the tensors of a sample that are no input, which nobody registers."""

    def __init__(self, op, sample):
        super().__init__()
        leaves, self._spec = pytree.tree_flatten((sample.args, sample.kwargs))
        self._op, self._leaves = op, [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                setattr(self, f"captured{i}", leaf.clone())

    def forward(self, x):
        leaves = [getattr(self, f"captured{i}", leaf) for i, leaf in enumerate(self._leaves)]
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        return self._op(x, *args, **kwargs)

    def captured(self):
        return [t for name, t in vars(self).items() if name.startswith("captured")]


def tensors(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def copied(tree):
    return pytree.tree_map_only(torch.Tensor, torch.clone, tree)


def samples(op, count):
    """For each sample its arguments, and N inputs of its form."""
    drawn = []
    for seed in range(N):
        torch.manual_seed(seed)
        random.seed(seed)
        drawn.append(list(itertools.islice(op.sample_inputs("cpu", torch.float32), count)))
    for first, *others in zip(*drawn):
        forms = [[(t.shape, t.dtype) for t in tensors(s.input)] for s in (first, *others)]
        yield first, [s.input if form == forms[0] else first.input for s, form in zip((first, *others), forms)]


def difference(got, expected):
    """The largest one, relative to the largest expected; or what else is wrong."""
    if (got.shape, got.dtype) != (expected.shape, expected.dtype):
        return f"{got.dtype} {tuple(got.shape)}, expected {expected.dtype} {tuple(expected.shape)}"
    if got.numel() == 0:
        return 0.0
    kind = torch.complex128 if got.is_complex() else torch.float64
    got, expected = got.to(kind), expected.to(kind)
    same = (got == expected) | (got.isnan() & expected.isnan())
    scale = torch.where(expected.isfinite(), expected.abs(), 0).max().clamp_min(1e-9)
    return float(torch.where(same, 0, (got - expected).abs()).max() / scale)


def differences(got, expected):
    """Of wide tensors from each model's own."""
    if len(got) != len(expected[0]):
        return f"{len(got)} tensors, expected {len(expected[0])}"
    all_of_them = [difference(y[i], own[k]) for k, y in enumerate(got) for i, own in enumerate(expected)]
    return next((d for d in all_of_them if isinstance(d, str)), max(all_of_them, default=0.0))


def distance(a, b):
    """Of two samples' distributions, as Kolmogorov and Smirnov have it; rounding aside."""
    a, b = a.sort().values, b.sort().values
    if difference(a, b) < 1e-4:
        return 0.0
    values = torch.cat([a, b])
    return float((torch.searchsorted(a, values, right=True) / len(a) - torch.searchsorted(b, values, right=True) / len(b))
                 .abs().max())


def wrong_draws(wide, model, inputs):
    """What is wrong with an operator that draws: its seed, its models or its statistics."""
    def draw():
        return [t.to(torch.complex128 if t.is_complex() else torch.float64) for t in tensors(wide(nw.pack(inputs)))]

    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append(draw())
    if any(difference(a, b) for a, b in zip(runs[0], runs[1])):
        return "one seed, other values"
    if all(not difference(a, b) for a, b in zip(runs[0], runs[2])) and sum(t.numel() for t in runs[0]) > 50:
        return "another seed, the same values"
    alike = [t for _ in range(5) for t in tensors(wide(nw.pack([inputs[0]] * N)))]
    if sum(t.numel() for t in alike) > 250 * N and all(torch.equal(t[0], t[1]) for t in alike):
        return "the same values in two models"
    got = [draw() for _ in range(DRAWS)]
    expected = [tensors(nw.pack([model(x) for x in inputs])) for _ in range(DRAWS)]
    for k in range(len(got[0])):
        a, b = (torch.stack([torch.view_as_real(run[k]) if run[k].is_complex() else run[k] for run in runs])
                .double().reshape(DRAWS, N, -1).nan_to_num(posinf=1e30, neginf=-1e30) for runs in (got, expected))
        if a.numel() == 0:
            continue
        # Values of one call may hang together; medians of calls do not.
        own = a.median(-1).values.flatten(), b.median(-1).values.flatten()
        if distance(*own) > 2.3 * (2 / len(own[0])) ** 0.5 or distance(a.flatten(), b.flatten()) > 0.15:
            return f"tensor {k}: another distribution"
    return ""


def judge(name, op, sample, inputs):
    """What became of a sample: "right", "random", "meaningless" where PyTorch itself refuses, or what is wrong."""
    def call(x, *args, **kwargs):  # operators that write do so to a copy of their input
        return op(copied(x), *args, **kwargs)

    models = [Model(call, sample) for _ in range(N)]
    expected = []
    try:
        for model, x in zip(models, inputs):
            torch.manual_seed(1)
            expected.append(tensors(model(x)))
        again = []
        for seed in range(2, 8):
            torch.manual_seed(seed)
            again.append(tensors(Model(call, sample)(inputs[0])))
    except AssertionError:
        return "meaningless"
    options, writes = nw.Options(tune=False, threads=1), False
    try:
        wide = nw.compile(lambda x: call(x, *sample.args, **sample.kwargs), (inputs[0],), n=N, options=options)
    except nw.Error as error:
        if not re.match(r"\[forward\] captured tensor .* a change in place", str(error)):
            raise
        writes = True  # models have tensors of their own for that
        wide = nw.compile([Model(call, sample) for _ in range(N)], (inputs[0],), options=options)
    got = tensors(wide(nw.pack(inputs)))
    if name in UNINITIALISED:
        return "right" if [t.shape[1:] for t in got] == [t.shape for t in expected[0]] else "another shape"
    if any(difference(a, b) for other in again for a, b in zip(expected[0], other)):
        return wrong_draws(wide, models[0], inputs) or "random"
    error = differences(got, expected)
    for i in range(N if writes else 0):
        left = [t for _, t in sorted(vars(wide)["_unregistered"].items())]
        now = [t for _, t in sorted((k, v) for k, v in vars(models[i]).items() if k.startswith("captured"))]
        written = [difference(a[i] if a.dim() > b.dim() else a, b) for a, b in zip(left, now)]
        error = error or max(written, default=0.0)
    return "right" if not isinstance(error, str) and error < 1e-5 else f"difference {error}"


def draws_as_ever():
    """Lets the database's operators that draw do so as they do outside of it, where it would seed them."""
    for module in list(sys.modules.values()):
        if hasattr(module, "wrapper_set_seed"):
            module.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)


def child(count):
    """Judges the operators that stdin names, and says so line by line."""
    from torch.testing._internal.common_methods_invocations import op_db
    draws_as_ever()
    torch.set_num_threads(1)
    wanted = set(json.load(sys.stdin))
    for op in op_db:
        if op.formatted_name not in wanted:
            continue
        print(json.dumps([op.formatted_name, "begun"]), flush=True)
        said = set()
        with torch.no_grad():
            for sample, inputs in samples(op, count):
                try:
                    said.add(judge(op.formatted_name, op.op, sample, inputs))
                except nw.Error as error:
                    said.add(f"refused: {error}")
                except Exception as error:
                    said.add(f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0])
        print(json.dumps([op.formatted_name, sorted(said)]), flush=True)


def verdicts(names, count, script):
    """What children of this script said of operators, by name; one that ends the interpreter is "crashed"."""
    said = {}
    while names:
        done = subprocess.run([sys.executable, "-W", "ignore", script, "--child", str(count)], input=json.dumps(names),
                              capture_output=True, text=True)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        said.update((name, verdict) for name, verdict in lines if verdict != "begun")
        if done.returncode == 0:
            break
        if not lines or lines[-1][1] != "begun":
            raise RuntimeError(done.stderr)
        said[lines[-1][0]] = ["crashed"]
        names = [name for name in names if name not in said]
    return said


def database():
    """The names of all operators that take float32."""
    program = ("import json; from torch.testing._internal.common_methods_invocations import op_db; import torch; "
               "print(json.dumps([o.formatted_name for o in op_db if o.supports_dtype(torch.float32, 'cpu')]))")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def judged(names, count, script=__file__):
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        parts = pool.map(lambda part: verdicts(names[part::PROCESSES], count, script), range(PROCESSES))
    return {name: verdict for part in parts for name, verdict in part.items()}


class Operators(unittest.TestCase):
    def test_database(self):
        names = database()
        said = judged(names, FIRST)
        self.assertEqual(set(said), set(names))
        reasons = {name: reason for reason, those in REFUSED.items() for name in those}
        self.assertLessEqual(set(reasons), set(names))
        count = {"right": 0, "random": 0, "meaningless": 0}
        for name, verdict in said.items():
            with self.subTest(name):
                if name in reasons:
                    self.assertEqual([v for v in verdict if not re.search(f"^refused: .*{reasons[name]}", v)], [])
                else:
                    self.assertEqual([v for v in verdict if v not in count], [])
                    self.assertEqual(verdict == ["meaningless"], name.startswith("jiterator_"))  # those need a GPU
                    for v in verdict:
                        count[v] += 1
        self.assertGreater(count["right"], 600)
        self.assertGreater(count["random"], 15)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(int(sys.argv[2]))
    elif sys.argv[1:2] == ["--all"]:
        for operator, verdict in judged(sys.argv[2:] or database(), 10**6).items():
            if verdict != ["right"]:
                print(operator, *verdict, sep="\n  ")
    else:
        unittest.main()
