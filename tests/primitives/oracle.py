"""Computes registered single models with torch.nn, for primitives_test.cpp.

usage: oracle.py FOLDER. Every case is a folder inside it: `case` holds the target's name and its
shape's axes, `<k>.<name>` the k-th tensor as raw little-endian doubles (or int64), its first line
the sizes. Written back: `out.<k>` in the same form.
"""

import os
import sys

import torch
from torch import nn

torch.set_grad_enabled(False)
torch.set_default_dtype(torch.float64)


def read(path):
    with open(path, "rb") as file:
        head, data = file.read().split(b"\n", 1)
    kind, *sizes = head.decode().split()
    dtype = {"f": torch.float64, "i": torch.int64}[kind]
    flat = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return flat.reshape([int(s) for s in sizes])


def write(path, tensor):
    with open(path, "wb") as file:
        file.write(("f " + " ".join(map(str, tensor.shape)) + "\n").encode())
        file.write(tensor.contiguous().double().numpy().tobytes())


def filled(module, tensors, names):
    module.load_state_dict({n: tensors[n] for n in names if n in tensors}, strict=False)
    return module


PADDING_MODES = ["zeros", "reflect", "replicate", "circular"]


def convolution(kind, transposed=False):
    def run(t, a):
        k, groups, dilation = a["k"], a.get("groups", 1), a.get("dilation", 1)
        padding = "same" if a.get("same") else a.get("padding", dilation * (k - 1) // 2)
        out = t["weight"].shape[1] * groups if transposed else t["weight"].shape[0]
        extra = {"output_padding": a["output_padding"]} if "output_padding" in a else {}
        module = kind(t["x"].shape[1], out, k, stride=a.get("stride", 1), dilation=dilation, padding=padding,
                      groups=groups, bias="bias" in t, padding_mode=PADDING_MODES[a.get("padding_mode", 0)], **extra)
        return [filled(module, t, ["weight", "bias"])(t["x"])]
    return run


def linear(t, _):
    module = nn.Linear(t["weight"].shape[1], t["weight"].shape[0])
    return [filled(module, t, ["weight", "bias"])(t["x"])]


def batchnorm(t, a):
    module = nn.BatchNorm2d(a["C"]).train(bool(a.get("train", 0)))
    filled(module, t, ["weight", "bias", "running_mean", "running_var"])
    y = module(t["x"])
    return [y, module.running_mean, module.running_var] if module.training else [y]


def layernorm(t, a):
    return [filled(nn.LayerNorm(a["D"]), t, ["weight", "bias"])(t["x"])]


def groupnorm(t, a):
    return [filled(nn.GroupNorm(a["groups"], a["C"]), t, ["weight", "bias"])(t["x"])]


def embedding(t, a):
    return [filled(nn.Embedding(a["V"], a["D"]), t, ["weight"])(t["ids"])]


def attention(t, a):
    module = nn.MultiheadAttention(a["D"], a["h"], batch_first=True)
    filled(module, t, [n for n in t if n != "x"])
    mask = nn.Transformer.generate_square_subsequent_mask(a["T"], dtype=torch.float64) if a.get("causal") else None
    return [module(t["x"], t["x"], t["x"], attn_mask=mask, need_weights=False)[0]]


def recurrent(kind):
    def run(t, a):
        extra = {"nonlinearity": "relu"} if a.get("relu") else {}
        module = kind(a["I"], a["H"], a.get("layers", 1), bias=bool(a.get("biases", 1)),
                      batch_first=bool(a.get("batch_first", 1)), bidirectional=bool(a.get("bidirectional", 0)), **extra)
        filled(module, t, [n for n in t if n not in ("x", "h0", "c0")])
        y, state = module(t["x"], (t["h0"], t["c0"]) if "c0" in t else t["h0"])
        return [y, *state] if "c0" in t else [y, state]
    return run


def mlp_block(t, _):
    up, down = nn.Linear(*reversed(t["up.weight"].shape)), nn.Linear(*reversed(t["down.weight"].shape))
    module = nn.ModuleDict({"up": up, "down": down})
    filled(module, t, [n for n in t if n != "x"])
    return [down(nn.functional.gelu(up(t["x"])))]


TARGETS = {
    "linear": linear, "conv1d": convolution(nn.Conv1d), "conv2d": convolution(nn.Conv2d),
    "conv3d": convolution(nn.Conv3d), "convtranspose1d": convolution(nn.ConvTranspose1d, True),
    "convtranspose2d": convolution(nn.ConvTranspose2d, True), "batchnorm2d": batchnorm,
    "layernorm": layernorm, "groupnorm": groupnorm, "embedding": embedding, "attention": attention,
    "lstm": recurrent(nn.LSTM), "gru": recurrent(nn.GRU), "rnn": recurrent(nn.RNN), "mlp_block": mlp_block,
}


def main():
    root = sys.argv[1]
    for case in sorted(os.listdir(root)):
        folder = os.path.join(root, case)
        with open(os.path.join(folder, "case"), encoding="utf-8") as file:
            name, *axes = file.read().split()
        shape = {axis: int(size) for axis, size in (pair.split("=") for pair in axes)}
        files = [f for f in os.listdir(folder) if f != "case"]
        tensors = {f.split(".", 1)[1]: read(os.path.join(folder, f))
                   for f in sorted(files, key=lambda f: int(f.split(".", 1)[0]))}
        for k, result in enumerate(TARGETS[name](tensors, shape)):
            write(os.path.join(folder, f"out.{k}"), result)


main()
