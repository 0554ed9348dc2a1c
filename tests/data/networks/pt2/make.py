"""Writes the archives beside this script; run once with each of PyTorch 2.6, 2.8, 2.9 and 2.11.

Their layouts differ: 2.6 is a plain zip with pickled weights, 2.8 the package layout with pickled
weights, 2.9 and 2.11 the package layout with raw ones. Every archive holds tied weights, a buffer
that forward updates, one that is not persistent, a lifted constant, a dict and a keyword among the
inputs, None and a number among the outputs, no_grad and autocast sub-graphs, a dynamic batch.
expected.json beside them says what the network computes for which inputs.
"""
import json
import os

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))


class Net(nn.Module):
    def __init__(self, autocast):
        super().__init__()
        self.autocast = autocast
        self.first, self.second = nn.Linear(4, 3), nn.Linear(4, 3)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("shift", torch.tensor([0.5, -1.0, 2.0]), persistent=False)
        self.table = torch.arange(3.0)

    def forward(self, batch, mask, *, scale):
        x = batch["image"]
        self.seen.add_(1.0)
        with torch.no_grad():
            a = self.norm(self.first(x)) + self.shift
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
            b = self.second(x)
        y = torch.where(mask, a, b.float() * scale) + self.table * x.shape[0]
        return {"y": y, "more": (None, y.sum(0) + self.seen)}, y + torch.tensor([1.0, 2.0, 3.0])


def fill(tensor, start):
    """Values that need no random numbers, so that every version writes the same."""
    with torch.no_grad():
        tensor.copy_(torch.sin(torch.arange(tensor.numel()) * 0.7 + start).reshape(tensor.shape))
    return tensor


def write(net, path, decompose):
    for i, parameter in enumerate(net.parameters()):
        fill(parameter, i)
    fill(net.norm.running_mean, 9)
    net.norm.running_var.copy_(torch.tensor([0.5, 1.5, 1.0]))
    x, scale = fill(torch.empty(5, 4), 20), torch.tensor([0.25])
    mask = torch.tensor([[True], [False], [True], [False], [True]])
    expected = net({"image": x}, mask, scale=scale)
    outputs = [expected[0]["y"], expected[0]["more"][1], expected[1]]
    net.seen.zero_()

    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(
        net, ({"image": x}, mask), {"scale": scale}, strict=False,
        dynamic_shapes={"batch": {"image": {0: batch}}, "mask": {0: batch}, "scale": None})
    torch.export.save(exported.run_decompositions() if decompose else exported, path + ".pt2")
    return {"inputs": {"batch.image": x.tolist(), "mask": mask.tolist(), "scale": scale.tolist()},
            "outputs": [o.tolist() for o in outputs]}


def main():
    version = ".".join(torch.__version__.split(".")[:2])
    path = os.path.join(HERE, f"torch-{version}")
    # Newer versions cannot decompose a graph with autocast in it.
    expected = {"training": write(Net(True).eval(), path, False),
                "decomposed": write(Net(False).eval(), path + "-decomposed", True)}
    with open(os.path.join(HERE, "expected.json"), "w") as file:
        json.dump(expected, file, indent=1)


if __name__ == "__main__":
    main()
