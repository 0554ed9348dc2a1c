"""Random states: compiling and calling leave those of all devices as they are."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import unittest  # noqa: E402
from unittest import mock  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402
from nwide.recording import untouched_randomness  # noqa: E402


def models():
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(5, 40), nn.Dropout(0.5), nn.Linear(40, 3)) for _ in range(3)]


class Gpu:
    """A tensor on a GPU, as far as random states go."""

    def __init__(self, index):
        self.device = torch.device("cuda", index)


class States(unittest.TestCase):
    def test_of_gpus_that_no_module_is_on_are_not_seeded(self):
        made, x = models(), torch.randn(3, 8, 5)
        seeded = mock.Mock()
        with mock.patch("torch.cuda.manual_seed_all", seeded), mock.patch("torch.mps.manual_seed", seeded), \
                mock.patch("torch.xpu.manual_seed_all", seeded), mock.patch("torch.cuda._is_in_bad_fork", return_value=False):
            torch.manual_seed(1)
            self.assertTrue(seeded.called, "torch.manual_seed seeds by other functions now")
            seeded.reset_mock()
            before = torch.get_rng_state()
            wide = nw.compile(made, x[0])
            self.assertTrue(torch.equal(torch.get_rng_state(), before))
            nw.compile(made, x[0], options=nw.Options.safe())
            wide(x).sum().backward()
            nw.compile(made, in_dims=None)(x[0])
            wide.at([0, 2, 1, 1], rows=True)(x[0, :4])
        self.assertEqual(seeded.mock_calls, [])

    def test_checks_and_benchmarks_leave_it(self):
        wide, x = nw.compile(models(), torch.randn(8, 5)), torch.randn(3, 8, 5)
        wide(x)
        before = torch.get_rng_state()
        self.assertTrue(wide.validate().passed)
        self.assertTrue(torch.equal(torch.get_rng_state(), before))
        wide.benchmark(x, budget_s=0.01)
        self.assertTrue(torch.equal(torch.get_rng_state(), before))

    def test_of_the_gpus_of_given_tensors_are_restored(self):
        own = tuple(torch.Generator().manual_seed(k) for k in range(3))
        states = [generator.get_state() for generator in (torch.default_generator, *own)]
        with mock.patch("torch.cuda.default_generators", own):
            with self.assertRaises(KeyError), untouched_randomness(7, [Gpu(2), torch.ones(1), Gpu(0), Gpu(2)]):
                self.assertEqual([generator.initial_seed() for generator in (torch.default_generator, *own)], [7, 7, 1, 7])
                for generator in (torch.default_generator, own[0], own[2]):
                    torch.rand(4, generator=generator)
                raise KeyError
        for generator, state in zip((torch.default_generator, *own), states):
            self.assertTrue(torch.equal(generator.get_state(), state))

    def test_results_under_a_seed_are_repeatable(self):
        wide, x = nw.compile(models(), torch.randn(8, 5)), torch.randn(3, 8, 5)
        results = []
        for _ in range(2):
            torch.manual_seed(4)
            results.append(wide(x))
        self.assertTrue(torch.equal(*results))
        self.assertFalse(torch.equal(wide(x), results[0]))


if __name__ == "__main__":
    unittest.main()
