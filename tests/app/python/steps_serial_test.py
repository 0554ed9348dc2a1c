"""A training step in a user's own loop beside the loop over separate modules, on small networks."""

import package

package.enter()

import copy  # noqa: E402
import time  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402

LEAST = 2.0  # times as fast; on a quiet machine it is several times that
ROUNDS = (2, 6)  # the quickest of them counts, as other programs may disturb some


class Pooled(nn.Module):
    """A block over sequences, and a classifier of their mean."""

    def __init__(self):
        super().__init__()
        self.block, self.head = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True), nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.block(x).mean(1))


def deep():
    return nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.ReLU())], nn.Linear(64, 10))


def critic():
    return nn.Sequential(nn.Linear(23, 96), nn.ELU(), nn.LayerNorm(96), nn.Linear(96, 96), nn.ELU(), nn.Linear(96, 10))


NETWORKS = {"mlp": (lambda: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), 64, (32, 64)), "deep": (deep, 20, (32, 64)),
            "critic": (critic, 48, (24, 23)), "block": (Pooled, 12, (4, 16, 32))}


def seconds(step, at_least=0.1):
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < at_least:
        step()
        count += 1
    return (time.perf_counter() - begin) / count


class Steps(unittest.TestCase):
    def test_a_step_takes_less_than_half_of_the_loop(self):
        torch.set_num_threads(2)
        for name, (make, n, shape) in NETWORKS.items():
            with self.subTest(name):
                models = [make() for _ in range(n)]
                wide = nw.compile(copy.deepcopy(models))
                x, y = torch.randn(n, *shape), torch.randint(10, (n, shape[0]))
                optimizer = torch.optim.AdamW(wide.parameters(), lr=1e-3, fused=True)
                separate = [torch.optim.AdamW(m.parameters(), lr=1e-3, fused=True) for m in models]

                def step():
                    optimizer.zero_grad()
                    nw.per_model(F.cross_entropy)(wide(x), y).sum().backward()
                    optimizer.step()

                def loop():
                    for model, own, one, target in zip(models, separate, x, y):
                        own.zero_grad()
                        F.cross_entropy(model(one), target).backward()
                        own.step()

                for warm in (step, step, loop):
                    warm()
                of_step, of_loop = [], []
                while len(of_step) < ROUNDS[0] or (len(of_step) < ROUNDS[1] and min(of_loop) < LEAST * min(of_step)):
                    of_step.append(seconds(step))
                    of_loop.append(seconds(loop))
                self.assertGreaterEqual(min(of_loop) / min(of_step), LEAST)


if __name__ == "__main__":
    unittest.main()
