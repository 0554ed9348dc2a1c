"""Calls under autocast: those of a device of its own kind make other programs, those of another kind do not."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import unittest  # noqa: E402
from types import SimpleNamespace  # noqa: E402
from unittest import mock  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402
from nwide import module  # noqa: E402


class Autocast(unittest.TestCase):
    def setUp(self):
        before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
        self.addCleanup(lambda: (torch.set_autocast_enabled("cuda", before[0]), torch.set_autocast_dtype("cuda", before[1])))
        torch.set_autocast_enabled("cuda", True)  # as torch.autocast("cuda") does where there is a GPU

    def test_of_another_device_compiles_nothing(self):
        torch.set_autocast_enabled("cuda", False)
        models, x = [nn.Linear(4, 3) for _ in range(2)], torch.randn(2, 5, 4)
        wide = nw.compile(models, x[0])
        with torch.no_grad():
            expected = torch.stack([model(one) for model, one in zip(models, x)])
            torch.set_autocast_enabled("cuda", True)
            torch.testing.assert_close(wide(x), expected)
            self.assertEqual(len(wide._cores), 1)
            with torch.autocast("cpu", torch.bfloat16):
                self.assertEqual(wide(x).dtype, torch.bfloat16)
            self.assertEqual(len(wide._cores), 2)

    def test_of_the_device_that_tensors_lie_on(self):
        on_cpu, on_gpu = [torch.ones(1)], [SimpleNamespace(is_cuda=True)]
        self.assertEqual([module.autocast_of(tensors) for tensors in ([], on_cpu, on_gpu)], [False, False, torch.float16])
        torch.set_autocast_dtype("cuda", torch.bfloat16)
        self.assertEqual(module.autocast_of(on_gpu), torch.bfloat16)
        torch.set_autocast_enabled("cuda", False)
        self.assertEqual(module.autocast_of(on_gpu), False)
        with torch.autocast("cpu", torch.bfloat16):
            self.assertEqual([module.autocast_of(tensors) for tensors in (on_cpu, on_gpu)], [torch.bfloat16, False])

    def test_looks_at_each_call(self):
        wide, x = nw.compile([nn.Linear(4, 3) for _ in range(2)]), torch.randn(2, 5, 4)
        with torch.no_grad():
            wide(x)
            wide._quick = *wide._quick[:3], "cuda"  # as of a module on a GPU
            with mock.patch.object(type(wide), "_core", side_effect=KeyError("looked")):
                with self.assertRaises(KeyError):
                    wide(x)
                torch.set_autocast_enabled("cuda", False)
                wide(x)


if __name__ == "__main__":
    unittest.main()
