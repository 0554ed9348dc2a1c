"""What cannot be: one nw.Error, naming the thing, what was got and what was expected."""

import package

package.enter()

import random  # noqa: E402
import re  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

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
        wide = nw.compile([nn.Linear(4, 3) for _ in range(2)], torch.randn(2, 4))
        self.refused(r"input input: got f32\[3, 2, 4\]", lambda: wide(torch.randn(3, 2, 4)))
        self.refused("copy_to", lambda: wide.copy_to([nn.Linear(4, 3)]))
        with self.assertRaises(IndexError):
            wide[2]

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

    def test_packing(self):
        self.refused("models: got none", lambda: nw.pack([]))
        self.refused("tensor 0 of model 1", lambda: nw.pack([torch.ones(2), torch.ones(3)]))
        self.refused("models", lambda: nw.unpack([torch.ones(2), torch.ones(3)]))

    def test_another_torch(self):
        done = subprocess.run([sys.executable, "-c", "import torch; torch.__version__ = '2.12.0'; import nwide"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.strip().split("\n")[-1],
                         "ImportError: [nwide] torch: got 2.12.0, expected 2.11; try pip install torch==2.11.0")


if __name__ == "__main__":
    unittest.main()
