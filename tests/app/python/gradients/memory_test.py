"""What a training step in a user's own loop takes of memory, beside the step of separate modules."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import json  # noqa: E402
import math  # noqa: E402
import subprocess  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402

MARK = 12345677  # bytes of a tensor that says where in a profile something begins


class Sequences(nn.Module):
    """Attention over so many places that all scores of a head are more than its queries, keys and values."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.head = nn.Linear(24, 72), nn.Linear(24, 24), nn.Linear(24, 10)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (3, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.head((x + self.out(mixed)).mean(1))


def layers():
    return nn.Sequential(nn.Linear(40, 112), nn.Tanh(), nn.Linear(112, 112), nn.LayerNorm(112), nn.SiLU(), nn.Linear(112, 10))


def images():
    return nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 24, 3),
                         nn.GroupNorm(4, 24), nn.GELU(), nn.Flatten(), nn.Linear(24 * 25, 10))


def series():
    return nn.Sequential(nn.Conv1d(6, 24, 5, padding=2), nn.GroupNorm(4, 24), nn.SiLU(), nn.Conv1d(24, 24, 3), nn.SiLU(), nn.Flatten(),
                         nn.Linear(24 * 62, 10))


# Network, number of models, one model's input, and how much of what separate modules take is allowed. What is above 1 is the result
# and what the models that are computed at a time are made of.
NETWORKS = {"layers": (layers, 23, (24, 40), 1.05), "images": (images, 11, (8, 3, 14, 14), 1), "series": (series, 7, (12, 6, 64), 1),
            "sequences": (Sequences, 5, (3, 192, 24), 1.07)}


def separate(make, n, x, y):
    models = [make() for _ in range(n)]
    optimizers = [torch.optim.Adam(model.parameters(), fused=True) for model in models]

    def step():
        for optimizer in optimizers:
            optimizer.zero_grad()
        sum(F.cross_entropy(model(a), b) for model, a, b in zip(models, x, y)).backward()
        for optimizer in optimizers:
            optimizer.step()
    return step


def wide(make, n, x, y):
    module = nw.compile([make() for _ in range(n)], x[0], options=nw.Options(tune=False))  # tuning would choose by the clock
    optimizer, loss = nw.optim.Adam(module, lr=1e-3), nw.per_model(F.cross_entropy)

    def step():
        optimizer.zero_grad()
        loss(module(x), y).sum().backward()
        optimizer.step()
    return step


def taken(name, of, threads):
    """Bytes of tensors made since the modules were: at the peak of a step, and between steps."""
    make, n, shape, _ = NETWORKS[name]
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    x, y = torch.randn(n, *shape), torch.randint(10, (n, shape[0]))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as seen:
        step = of(make, n, x, y)
        for _ in range(3):
            step()
        torch.empty(MARK, dtype=torch.uint8)
        step()
        torch.empty(MARK, dtype=torch.uint8)
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = peak = marks = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        if event.nbytes() == MARK:
            marks += 1
        elif event.nbytes() != -MARK:
            live += event.nbytes()
        if marks == 1:
            peak = max(peak, live)
    assert marks == 2, marks
    return {"peak": peak, "between": live}


def measured(name, of, threads=2):
    """`taken` in a process of its own: a profile knows only tensors that were made while it was taken."""
    done = subprocess.run([sys.executable, __file__, name, of.__name__, str(threads)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


class Memory(unittest.TestCase):
    def test_a_step_takes_little_more_than_separate_ones_or_less(self):
        for name, (_, _, _, allowed) in NETWORKS.items():
            for threads in (1, 2):
                with self.subTest(name, threads=threads):
                    theirs, ours = measured(name, separate, threads), measured(name, wide, threads)
                    self.assertLess(ours["peak"], allowed * theirs["peak"])

    def test_between_steps_there_are_weights_gradients_states_one_model_and_a_result(self):
        for name, (make, n, shape, _) in NETWORKS.items():
            with self.subTest(name):
                one = sum(t.numel() for t in make().parameters()) * 4  # of it other sizes are recorded
                result = n * shape[0] * 10 * 4
                self.assertLess(measured(name, wide)["between"], 4 * n * one + 1.1 * (one + result) + 2000)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        print(json.dumps(taken(sys.argv[1], {"separate": separate, "wide": wide}[sys.argv[2]], int(sys.argv[3]))))
    else:
        unittest.main()
