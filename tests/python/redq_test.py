"""REDQ's critics as one wide module, against the same algorithm over separate PyTorch modules."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "personas"), os.path.join(os.path.dirname(HERE), "app", "python")]
import package  # noqa: E402

package.enter()

import copy  # noqa: E402
import unittest  # noqa: E402

import redq  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

UPDATES = 2000


def train_separately(models, updates):
    targets = copy.deepcopy(models)
    optimizers = [torch.optim.Adam(m.parameters(), lr=3e-4) for m in models]
    for here, after, reward, pair in redq.batches(updates):
        with torch.no_grad():
            goal = reward + redq.GAMMA * torch.stack([targets[i](after)[:, 0] for i in pair.tolist()]).amin(0)
        for model, optimizer in zip(models, optimizers):
            optimizer.zero_grad()
            F.mse_loss(model(here)[:, 0], goal).backward()
            optimizer.step()
        with torch.no_grad():
            for target, own in zip(targets, models):
                for t, p in zip(target.parameters(), own.parameters()):
                    t.lerp_(p, 1 - redq.RHO)
    return models, targets


class Redq(unittest.TestCase):
    def test_critics_and_targets_are_those_of_separate_modules(self):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        models = [redq.critic().double() for _ in range(redq.N)]
        wide = redq.train(copy.deepcopy(models), UPDATES)
        for ours, theirs in zip(wide, train_separately(models, UPDATES)):
            for name, p in ours.named_parameters():
                for i, model in enumerate(theirs):
                    own = model.get_parameter(name)
                    self.assertLess(float(((p[i] - own).abs().max() / own.abs().max()).detach()), 1e-7, f"{name} {i}")


if __name__ == "__main__":
    unittest.main()
