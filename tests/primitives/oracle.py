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


def batchnorm(kind):
    def run(t, a):
        track, batches = bool(a.get("track", 1)), a.get("batches")
        module = kind(a["C"], affine=bool(a.get("affine", 1)), track_running_stats=track,
                      momentum=None if batches else 0.1).train(bool(a.get("train", 0)))
        filled(module, t, ["weight", "bias", "running_mean", "running_var"])
        if batches:
            module.num_batches_tracked.fill_(batches - 1)
        y = module(t["x"])
        return [y, module.running_mean, module.running_var] if module.training and track else [y]
    return run


def instancenorm(t, a):
    module = nn.InstanceNorm2d(a["C"], affine=bool(a.get("affine", 1)), track_running_stats=bool(a.get("track", 0)))
    filled(module, t, ["weight", "bias", "running_mean", "running_var"])
    y = module(t["x"])
    return [y, module.running_mean, module.running_var] if a.get("track") else [y]


def rmsnorm(t, a):
    return [filled(nn.RMSNorm(a["D"], eps=1e-5, elementwise_affine="weight" in t), t, ["weight"])(t["x"])]


def ada_layer_norm_zero_single(t, a):
    # Spelled out from the paper's formulas, without torch's layer_norm and chunk.
    emb = t["emb"] * torch.sigmoid(t["emb"])
    d = a["D"]
    shift, scale, gate = (emb @ t["linear.weight"][k * d:(k + 1) * d].T + t["linear.bias"][k * d:(k + 1) * d]
                          for k in range(3))
    y = (t["x"] - t["x"].mean(-1, keepdim=True)) / torch.sqrt(t["x"].var(-1, keepdim=True, unbiased=False) + 1e-6)
    if y.dim() == 3:
        shift, scale = shift[:, None], scale[:, None]
    return [y * (1 + scale) + shift, gate]


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


def prelu(t, _):
    return [filled(nn.PReLU(t["weight"].numel()), t, ["weight"])(t["x"])]


def adaptive_pool(t, a):
    oh, ow = a.get("oh", 1), a.get("ow", a.get("oh", 1))
    image, (h, w) = t["x"], t["x"].shape[2:]
    cells = [[image[:, :, i * h // oh:-(-(i + 1) * h // oh), j * w // ow:-(-(j + 1) * w // ow)].mean((2, 3))
              for j in range(ow)] for i in range(oh)]
    windows = torch.stack([torch.stack(row, -1) for row in cells], -2)
    layer = nn.AdaptiveAvgPool2d((oh, ow))(image)
    assert torch.allclose(windows, layer, rtol=1e-12, atol=1e-12)
    return [layer]


def linear_of(t, name):
    weight = t[f"{name}.weight"]
    module = nn.Linear(weight.shape[1], weight.shape[0])
    module.load_state_dict({"weight": weight, "bias": t[f"{name}.bias"]})
    return module


def mlp_embedder(t, _):
    return [nn.Sequential(linear_of(t, "in_layer"), nn.SiLU(), linear_of(t, "out_layer"))(t["x"])]


def cross_attention(t, a):
    module = nn.MultiheadAttention(a["D"], a["h"], batch_first=True)
    filled(module, t, [n for n in t if n not in ("x", "context")])
    return [module(t["x"], t["context"], t["context"], need_weights=False)[0]]


def rotate(x, angles):
    """Channels (2k, 2k+1) of a head as one complex number, turned by the angle of each column."""
    if angles is None:
        return x
    z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    turn = torch.polar(torch.ones_like(angles), angles).unflatten(-1, (-1, 2))
    return torch.stack([(z * turn[..., 0]).real, (z * turn[..., 1]).imag], -1).flatten(-2)


def heads(qkv, h):
    """q, k and v as [B, h, T, d], cut with slices instead of views."""
    b, length, dim = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    return [qkv[..., i * dim:(i + 1) * dim].reshape(b, length, h, dim // h).transpose(1, 2) for i in range(3)]


def attend(q, k, v, angles):
    q, k = rotate(q, angles), rotate(k, angles)
    weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1)
    return (weights @ v).transpose(1, 2).flatten(-2)


def jointly(parts, angles):
    first = parts[0][0].shape[2]
    y = attend(*(torch.cat(pair, 2) for pair in zip(*parts)), angles)
    return y[:, :first], y[:, first:]


def modulate(x, shift, scale):
    normal = nn.LayerNorm(x.shape[-1], eps=1e-6, elementwise_affine=False)(x)
    return normal * (1 + scale[:, None]) + shift[:, None]


def attention_block(t, a):
    parts = heads(linear_of(t, "qkv")(t["x"]), a["h"])
    return [linear_of(t, "out")(attend(*parts, t.get("rope")))]


def joint_attention(t, a):
    parts = [heads(linear_of(t, f"{s}_qkv")(t[s]), a["h"]) for s in ("text", "image")]
    return [linear_of(t, f"{s}_out")(y) for s, y in zip(("text", "image"), jointly(parts, t.get("rope")))]


def double_stream_block(t, a):
    modulation, parts, results = {}, [], []
    for s in ("text", "image"):
        modulation[s] = linear_of(t, f"{s}_mod")(nn.SiLU()(t["emb"])).chunk(6, -1)
        parts.append(heads(linear_of(t, f"{s}_qkv")(modulate(t[s], *modulation[s][:2])), a["h"]))
    for s, y in zip(("text", "image"), jointly(parts, t.get("rope"))):
        _, _, gate1, shift, scale, gate2 = modulation[s]
        x = t[s] + gate1[:, None] * linear_of(t, f"{s}_out")(y)
        mlp = nn.Sequential(linear_of(t, f"{s}_mlp.0"), nn.GELU("tanh"), linear_of(t, f"{s}_mlp.2"))
        results.append(x + gate2[:, None] * mlp(modulate(x, shift, scale)))
    return results


def single_stream_block(t, a):
    shift, scale, gate = linear_of(t, "modulation")(nn.SiLU()(t["emb"])).chunk(3, -1)
    y = linear_of(t, "linear1")(modulate(t["x"], shift, scale))
    attended = attend(*heads(y[..., :3 * a["D"]], a["h"]), t.get("rope"))
    both = torch.cat([attended, nn.GELU("tanh")(y[..., 3 * a["D"]:])], -1)
    return [t["x"] + gate[:, None] * linear_of(t, "linear2")(both)]


TARGETS = {
    "prelu": prelu, "adaptiveavgpool2d": adaptive_pool, "mlp_embedder": mlp_embedder,
    "multiheadcrossattention": cross_attention, "attention_block": attention_block,
    "joint_attention": joint_attention, "double_stream_block": double_stream_block,
    "single_stream_block": single_stream_block,
    "linear": linear, "conv1d": convolution(nn.Conv1d), "conv2d": convolution(nn.Conv2d),
    "conv3d": convolution(nn.Conv3d), "convtranspose1d": convolution(nn.ConvTranspose1d, True),
    "convtranspose2d": convolution(nn.ConvTranspose2d, True), "batchnorm1d": batchnorm(nn.BatchNorm1d),
    "batchnorm2d": batchnorm(nn.BatchNorm2d), "batchnorm3d": batchnorm(nn.BatchNorm3d), "rmsnorm": rmsnorm,
    "instancenorm2d": instancenorm, "ada_layer_norm_zero_single": ada_layer_norm_zero_single,
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
