"""Networks of many kinds as Python modules, three of each, against the modules themselves in double precision."""

import package

package.enter()

import copy  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import nwide as nw  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures"))
import export_networks  # noqa: E402
import module_networks  # noqa: E402

N = 3
ALL = {**export_networks.ALL, **module_networks.ALL}
REFUSED = {"writes": "a change in place"}  # of its own input


def tensors(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def double(tree):
    return pytree.tree_map_only(torch.Tensor, lambda t: t.double() if t.is_floating_point() else t.clone(), tree)


def wrong(name):
    """What is wrong with a network's wide form, else how many operators are computed one by one."""
    make, inputs = ALL[name]
    models = [export_networks.varied(make, 10 + i) for i in range(N)]
    torch.manual_seed(5)
    arguments = [inputs() for _ in range(N)]
    with torch.no_grad():
        expected = [tensors(copy.deepcopy(m).double()(**double(a))) for m, a in zip(models, arguments)]
        wide = nw.compile(models, arguments[0], options=nw.Options(tune=False, threads=1))
        got = tensors(wide(**nw.pack(arguments)))
    if len(got) != len(expected[0]):
        return f"{len(got)} outputs, expected {len(expected[0])}"
    for k, y in enumerate(got):
        for i, outputs in enumerate(expected):
            if y[i].shape != outputs[k].shape:
                return f"output {k}: {tuple(y[i].shape)}, expected {tuple(outputs[k].shape)}"
            kind = torch.complex128 if y.is_complex() else torch.float64
            error = float((y[i].to(kind) - outputs[k]).abs().max() / outputs[k].abs().max().clamp_min(1e-9))
            if not error < 2e-4:
                return f"output {k} of model {i}: error {error:.1e}"
    return wide.coverage.counts["per_model"]


class Networks(unittest.TestCase):
    def test_every_network_is_right(self):
        torch.set_num_threads(1)
        chosen = os.environ.get("WORKBENCH_NETWORKS", "").split(",")
        one_by_one = {}
        for name in ALL:
            if chosen != [""] and name not in chosen:
                continue
            with self.subTest(name):
                if name in REFUSED:
                    self.assertRaisesRegex(nw.Error, REFUSED[name], wrong, name)
                    continue
                result = wrong(name)
                self.assertIsInstance(result, int, f"{name}: {result}")
                if result:
                    one_by_one[name] = result
        self.assertLessEqual(len(one_by_one), 2, one_by_one)


if __name__ == "__main__":
    unittest.main()
