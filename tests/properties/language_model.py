"""The loss of `language_model` after some steps of AdamW, by PyTorch's own layers; for suites_test.cpp.

usage: language_model.py FOLDER. In it `case` is JSON: tensors by name in order (sizes, whether integers), the numbers of
heads and blocks, the learning rate and the steps; `<k>` is the k-th tensor as raw little-endian float32 (or int64), the
moments `exp_avg.NAME` and `exp_avg_sq.NAME` after the parameters. Prints the loss after the steps.
"""
import json
import os
import sys

import torch
from torch import nn
from torch.nn import functional as F


def read(folder):
    with open(os.path.join(folder, "case"), encoding="utf-8") as file:
        case = json.load(file)
    tensors = {}
    for k, (name, sizes, integers) in enumerate(case["tensors"]):
        with open(os.path.join(folder, str(k)), "rb") as file:
            flat = torch.frombuffer(bytearray(file.read()), dtype=torch.int64 if integers else torch.float32)
        tensors[name] = flat.reshape(sizes).clone()
    return case, tensors


class Block(nn.Module):
    def __init__(self, width, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        for name in ("q", "k", "v", "out"):
            setattr(self, name, nn.Linear(width, width, bias=False))
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, turn):
        def apart(y):
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        def turned(y):
            pairs = torch.view_as_complex(y.unflatten(-1, (-1, 2)).contiguous())
            return torch.view_as_real(pairs * turn).flatten(-2)

        y = self.norm1(x)
        a = F.scaled_dot_product_attention(turned(apart(self.q(y))), turned(apart(self.k(y))), apart(self.v(y)), is_causal=True)
        x = x + self.out(a.transpose(1, 2).flatten(-2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class LanguageModel(nn.Module):
    def __init__(self, case, tensors):
        super().__init__()
        words, width = tensors["embedding.weight"].shape
        hidden = tensors["layers.0.up.weight"].shape[0]
        self.depth = width // case["heads"]
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Block(width, hidden, case["heads"]) for _ in range(case["blocks"]))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids, following):
        rate = 10000.0 ** (-torch.arange(0, self.depth, 2) / self.depth)
        angles = torch.outer(torch.arange(ids.shape[1]).float(), rate)
        turn = torch.polar(torch.ones_like(angles), angles)
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, turn)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), following.flatten())


def main():
    case, tensors = read(sys.argv[1])
    model = LanguageModel(case, tensors)
    model.load_state_dict({name: tensors[name] for name in model.state_dict()})
    optimizer = torch.optim.AdamW(model.parameters(), lr=case["rate"])
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = {"step": torch.tensor(float(case["step"])), "exp_avg": tensors["exp_avg." + name],
                                      "exp_avg_sq": tensors["exp_avg_sq." + name]}
    for _ in range(case["steps"]):
        optimizer.zero_grad()
        model(tensors["ids"], tensors["next"]).backward()
        optimizer.step()
    print(f"{model(tensors['ids'], tensors['next']).item():.9g}")


main()
