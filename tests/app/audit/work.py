"""How many operations and bytes a call has, counted in PyTorch instead of by the product.

As documented: 2MNK of matrix products and convolutions and of their gradients; one for every element that a
reduction or a window of a pooling reads; one for every element of any other result, views free; a layer kind
may say instead how many operations an element takes. Bytes are inputs and weights read once and results
written once.
"""
import math
import re
import types

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}


class Counter(TorchDispatchMode):
    """`products`: of matrix products and convolutions; `elements`: what reductions and poolings read, and results
    of all else."""

    def __init__(self):
        super().__init__()
        self.products = self.elements = 0

    def __torch_dispatch__(self, func, _types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        name = packet.__name__
        if name.startswith("_scaled_dot_product"):  # two products, or five with gradients
            query, key = args[1:3] if "backward" in name else args[:2]
            self.products += (10 if "backward" in name else 4) * query.numel() * key.shape[-2]
        elif packet in flop_registry:
            self.products += flop_registry[packet](*args, **(kwargs or {}), out_val=out)
        elif torch.Tag.reduction in func.tags:
            self.elements += args[0].numel()
        elif re.fullmatch(r"(adaptive_|_adaptive_)?(max|avg)_pool[123]d(_with_indices)?", name):
            self.elements += _in_windows(args[0], out[0] if isinstance(out, tuple) else out,
                                         None if "adaptive" in name else args[1])
        elif not func.is_view:
            results = out if isinstance(out, (tuple, list)) else [out]
            self.elements += sum(t.numel() for t in results if isinstance(t, torch.Tensor))
        return out


def _in_windows(x, pooled, kernel):
    """Elements of all windows; those of an adaptive pooling (no kernel) begin and end at shares of the input."""
    if kernel is not None:
        return pooled.numel() * math.prod(kernel)
    reach = 1
    for size, parts in zip(x.shape[2:], pooled.shape[2:]):
        reach *= sum(-(-(k + 1) * size // parts) - k * size // parts for k in range(parts))
    return math.prod(pooled.shape[:2]) * reach


def counted(module, inputs):
    """(products, other elements, outputs) of one call without gradients."""
    with torch.no_grad(), Counter() as counter:
        out = module(*inputs)
    outputs = [out] if isinstance(out, torch.Tensor) else [t for t in out if t is not None]
    return counter.products, counter.elements, outputs


def nbytes(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def shape_of(text):
    """The axes of "B8 D128" as attributes; absent ones are None."""
    axes = {name: int(value) for name, value in re.findall(r"([A-Za-z_]+)(-?\d+)", text)}

    class Axes(types.SimpleNamespace):
        def __getattr__(self, name):
            return None

    return Axes(**axes)


class Call(nn.Module):
    """A function of modules as a module."""

    def __init__(self, function, **modules):
        super().__init__()
        self.parts, self.function = nn.ModuleDict(modules), function

    def forward(self, *inputs):
        return self.function(self.parts, *inputs)


def _convolution(dims, extents, transposed=False):
    kinds = (nn.ConvTranspose1d, nn.ConvTranspose2d) if transposed else (nn.Conv1d, nn.Conv2d, nn.Conv3d)

    def make(a):
        dilation, stride = a.dilation or 1, 1 if a.stride is None else a.stride
        padding = dilation * (a.k - 1) // 2 if a.padding is None else a.padding
        if a.same:
            padding = "same"
        more = {"output_padding": a.output_padding or 0} if transposed else {}
        layer = kinds[dims - 1](a.C, a.O or a.C, a.k, stride, padding, dilation=dilation,
                                groups=a.groups or 1, bias=a.biases != 0, **more)
        return layer, [torch.empty(a.B, a.C, *(getattr(a, e) for e in extents))]
    return make


def _batch_norm(kind, extents):
    def make(a):
        # Batches are counted by the caller: that buffer is not among the tensors of a call.
        layer = kind(a.C, affine=a.affine != 0, track_running_stats=a.track != 0)
        layer.num_batches_tracked = None
        sizes = [getattr(a, e) for e in extents if getattr(a, e) is not None]
        return layer.train(bool(a.train)), [torch.empty(a.B, a.C, *sizes)]
    return make


class Cells(nn.Module):
    """A recurrent layer step by step, so that its products are seen."""

    def __init__(self, kind, a):
        super().__init__()
        two = 2 if a.bidirectional else 1
        self.layer = getattr(nn, kind)(a.I, a.H, num_layers=a.layers or 1, batch_first=True,
                                       bidirectional=bool(a.bidirectional))
        self.gates, self.two = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], two

    def forward(self, x, *states):
        length, last = x.shape[1], []
        for l in range(self.layer.num_layers):
            outs = []
            for d in range(self.two):
                suffix = f"_l{l}" + ("_reverse" if d else "")
                w_ih, w_hh = (getattr(self.layer, f"weight_{k}{suffix}") for k in ("ih", "hh"))
                h = states[0][l * self.two + d] if states else x.new_zeros(x.shape[0], self.layer.hidden_size)
                steps = []
                for t in range(length):
                    gates = torch.mm(x[:, t], w_ih.t()) + torch.mm(h, w_hh.t())
                    h = torch.tanh(gates.view(*h.shape, -1).sum(-1))  # as large as what the layer's gates give
                    steps.append(h)
                last.append(h)
                outs.append(torch.stack(steps, 1))
            x = torch.cat(outs, -1)
        return (x, *(torch.stack(last) for _ in states))


def _recurrent(kind):
    def make(a):
        layers, two = a.layers or 1, 2 if a.bidirectional else 1
        states = [torch.empty(layers * two, a.B, a.H) for _ in range(2 if kind == "LSTM" else 1)]
        return Cells(kind, a), [torch.empty(a.B, a.T, a.I), *states]
    return make


def _lstm_net(a):
    cells = types.SimpleNamespace(I=a.I, H=a.H, layers=1, bidirectional=0)
    net = Call(lambda m, x: m["head"](m["r"](x)[0][:, -1]), r=Cells("LSTM", cells), head=nn.Linear(a.H, 8))
    return net, [torch.empty(a.B, a.T, a.I)]


def _multihead(m, q, k):
    return m["layer"](q, k, k, need_weights=False)[0]


def _cross(a):
    layer = nn.MultiheadAttention(a.D, a.h, batch_first=True)
    return Call(_multihead, layer=layer), [torch.empty(a.B, a.Tq, a.D), torch.empty(a.B, a.Tkv, a.D)]


def _attention(a):
    layer = nn.MultiheadAttention(a.D, a.h, batch_first=True)
    return Call(lambda m, x: _multihead(m, x, x), layer=layer), [torch.empty(a.B, a.T, a.D)]


def _transformer(a):
    def forward(m, x):
        b, t, d = x.shape
        q, k, v = m["qkv"](m["n1"](x)).view(b, t, 3, a.h, d // a.h).permute(2, 0, 3, 1, 4)
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + m["o"](out.transpose(1, 2).reshape(b, t, d))
        return x + m["d"](nn.functional.gelu(m["u"](m["n2"](x))))
    parts = {"n1": nn.LayerNorm(a.D), "qkv": nn.Linear(a.D, 3 * a.D), "o": nn.Linear(a.D, a.D),
             "n2": nn.LayerNorm(a.D), "u": nn.Linear(a.D, 4 * a.D), "d": nn.Linear(4 * a.D, a.D)}
    return Call(forward, **parts), [torch.empty(a.B, a.T, a.D)]


def _mlp(widths, activation):
    layers = [m for i, o in zip(widths, widths[1:]) for m in (nn.Linear(i, o), activation())]
    return nn.Sequential(*layers[:-1])


def _lenet(a):
    net = nn.Sequential(nn.Conv2d(1, 16, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, 1, 1),
                        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * (a.H // 4) * (a.W // 4), 64),
                        nn.ReLU(), nn.Linear(64, 10))
    return net, [torch.empty(a.B, 1, a.H, a.W)]


def _tiny_ts(a):
    net = Call(lambda m, x: m["f"](m["c2"](m["g"](m["c1"](x))).mean(-1)), c1=nn.Conv1d(8, 32, 5, 1, 2),
               g=nn.GroupNorm(4, 32), c2=nn.Conv1d(32, 32, 5, 1, 2), f=nn.Linear(32, 4))
    return net, [torch.empty(a.B, 8, a.L)]


def _image(module):
    return lambda a: (module(a), [torch.empty(a.B, a.C, a.H, a.W)])


def _rows(module):
    return lambda a: (module(a), [torch.empty(a.B, *([a.T] if a.T else []), a.D)])


# Single models of the registered names, with inputs of the right sizes.
TARGETS = {
    "linear": _rows(lambda a: nn.Linear(a.D, a.O or a.D)),
    "conv1d": _convolution(1, "L"), "conv2d": _convolution(2, "HW"), "conv3d": _convolution(3, "DHW"),
    "convtranspose1d": _convolution(1, "L", True), "convtranspose2d": _convolution(2, "HW", True),
    "attention": _attention, "multiheadcrossattention": _cross,
    "layernorm": _rows(lambda a: nn.LayerNorm(a.D)),
    "rmsnorm": _rows(lambda a: nn.RMSNorm(a.D, elementwise_affine=a.affine != 0)),
    "groupnorm": _image(lambda a: nn.GroupNorm(a.groups, a.C)),
    "instancenorm2d": _image(lambda a: nn.InstanceNorm2d(a.C, affine=a.affine != 0)),
    "batchnorm1d": _batch_norm(nn.BatchNorm1d, "L"), "batchnorm2d": _batch_norm(nn.BatchNorm2d, "HW"),
    "batchnorm3d": _batch_norm(nn.BatchNorm3d, "DHW"),
    "prelu": _image(lambda a: nn.PReLU(a.slopes or a.C)),
    "adaptiveavgpool2d": _image(lambda a: nn.AdaptiveAvgPool2d((a.oh, a.ow or a.oh))),
    "dropout": lambda a: (nn.Dropout((a.percent or 50) / 100), [torch.empty(a.B, a.T, a.C)]),
    "embedding": lambda a: (nn.Embedding(a.V, a.D), [torch.zeros(a.B, a.T, dtype=torch.int64)]),
    "mlp_embedder": _rows(lambda a: _mlp([a.D, a.H or 4 * a.D, a.O or a.D], nn.SiLU)),
    "mlp_block": _rows(lambda a: _mlp([a.D, a.hidden or 4 * a.D, a.D], nn.GELU)),
    "lstm": _recurrent("LSTM"), "gru": _recurrent("GRU"), "rnn": _recurrent("RNN"),
    "mlp": _rows(lambda a: _mlp([a.D, 2 * a.D, a.D], nn.ReLU)),
    "deep_mlp": _rows(lambda a: _mlp([a.D] * (a.layers + 1), nn.GELU)),
    "lenet": _lenet, "tiny_ts": _tiny_ts, "transformer": _transformer, "lstm_net": _lstm_net,
}

# Operations for an element of the input, of layers that say so themselves.
PER_ELEMENT = {"layernorm": 8, "groupnorm": 8, "instancenorm2d": 8, "rmsnorm": 5, "dropout": 2, "prelu": 1}


class Work:
    """Of one model's forward: operations and bytes."""

    def __init__(self, flops, others, read, written):
        self.flops, self.others = flops, others
        self.bytes = read + written


class DerivedWork:
    """Of one model's gradients, or of an optimiser's step with them: (least, most) of each. A product of
    the forward pass that no gradient needs is left out, and inputs may be read or not."""

    def __init__(self, module, inputs, phase):
        parameters = list(module.parameters())
        real = [t.requires_grad_() for t in inputs if t.is_floating_point()] if phase == "backward" else []
        wanted = real + parameters
        if not wanted:
            self.flops = self.bytes = (0, 0)
            return
        with Counter() as forward:
            out = module(*inputs)
        outputs = [t for t in ([out] if isinstance(out, torch.Tensor) else out) if t.requires_grad]
        with Counter() as backward:
            torch.autograd.grad(outputs, wanted, [torch.ones_like(t) for t in outputs], allow_unused=True)
        numbers = sum(p.numel() for p in parameters)
        products, others = forward.products + backward.products, forward.elements + backward.elements
        self.flops = (backward.products, 1.01 * products + 4 * others + 30 * numbers + 100)
        read = nbytes(inputs) + nbytes(module.parameters()) + nbytes(module.buffers())
        # A step reads and writes the parameters and two moments of each.
        written = nbytes(wanted) if phase == "backward" else 3 * nbytes(parameters)
        moments = 0 if phase == "backward" else 2 * nbytes(parameters) + 64
        self.bytes = (written, read + moments + nbytes(outputs) + nbytes(module.buffers()) + written)


def work_of_target(target, shape, dtype, phase="forward"):
    """None where the auditor has no model of that name."""
    if target not in TARGETS:
        return None
    a = shape_of(shape)
    module, inputs = TARGETS[target](a)
    module = module.to(DTYPES[dtype])
    inputs = [t.to(DTYPES[dtype]) if t.is_floating_point() else t for t in inputs]
    if phase != "forward":
        return DerivedWork(module, inputs, phase)
    products, others, outputs = counted(module, inputs)
    elements = math.prod(inputs[0].shape)
    if target.startswith("batchnorm"):
        flops = (7 if a.train else 2) * elements
    elif target in PER_ELEMENT:
        flops = PER_ELEMENT[target] * elements
    else:
        flops = products or others
    weights = [*module.parameters(), *module.buffers()]
    written = nbytes(outputs)
    if target.startswith("batchnorm") and a.train and a.track != 0:
        written += nbytes(module.buffers())
    return Work(flops, others, nbytes(inputs) + nbytes(weights), written)


def weights_of(module):
    """What a call in eval mode reads: all but the counts of batches."""
    counts = {name for name, _ in module.named_buffers() if name.endswith("num_batches_tracked")}
    return [*module.parameters(), *(b for name, b in module.named_buffers() if name not in counts)]


def work_of_module(module, inputs):
    """Of a network that a fusion was given: everything counted."""
    products, others, outputs = counted(module, inputs)
    weights = weights_of(module)
    return Work(products + others, others, nbytes(inputs) + nbytes(weights), nbytes(outputs))
