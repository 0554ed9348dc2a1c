"""nw.compile: from N models to one wide module."""

import copy
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.spectral_norm import SpectralNorm

from .architecture import FunctionModule, check_kept_apart, check_same, check_values, gather, path_text, refuse_recomputed, slots_of, tied
from .errors import Error, fail
from .module import WideModule
from .options import Options
from .recording import Form, argument_names, differ, hooked_parameters, modes, see, torch_threads
from .tracing import moved


def compile(
    models: Sequence[nn.Module] | nn.Module | Callable[..., Any],
    sample: torch.Tensor | tuple[Any, ...] | list[Any] | dict[str, Any] | None = None,
    *,
    n: int | None = None,
    in_dims: Any = 0,
    share_weights: bool = False,
    dropout: bool = False,
    options: Options | None = None,
) -> WideModule:
    """N models of one architecture as one nn.Module.

    `models`: a list of nn.Module, or one module or function of tensors together with `n`.
    `sample`: one model's input, a tensor, a tuple of arguments or a dict of keyword arguments; if given, compiles
    now, else at the first call. `in_dims`: as in torch.func.vmap, for positional
    arguments: the dimension of the models (default 0), or None for an argument that all models share.
    `share_weights`: with one module and `n`, all models share one copy of the weights, without a dimension for models.
    `dropout`: dropout is active, all else is in eval mode. Both together give n Monte-Carlo samples (Gal and Ghahramani 2016):
    `nw.compile(net, x, n=50, in_dims=None, share_weights=True, dropout=True)` computes the part before the first
    dropout once.
    Returns a WideModule: inputs and outputs are `[N, ...]`.
    Raises nw.Error if models differ in more than their tensors' values, or cannot be recorded (results whose shape
    depends on data, inputs changed in place).
    """
    if share_weights and (n is None or isinstance(models, (list, tuple, nn.ModuleList))):
        fail("compile", "share_weights", "models with weights of their own", "one module and n", "nw.compile(net, n=50, ...)")
    if dropout:
        models = _dropping(models)
    wide, models = assemble(WideModule, models, n, in_dims, options, share_weights)
    if dropout:
        wide.__dict__["_dropping"] = modes(models[0])
    if sample is not None:
        with torch_threads(wide._options.threads):
            _compile_for(wide, models, sample)
    return wide


def _compile_for(wide, models, sample):
    """Compiles for inputs like one model's `sample`, and compares the programs of the first and the last model."""
    first, slots = models[0], wide._slots
    args, kwargs = _arguments(sample)
    form = Form((args, kwargs))
    for name, t in zip(argument_names(first, form), form.tensors):
        check_values("compile", f"sample {name}", t)
    if models[-1] is not first and differ(see(first, slots, form)[0], see(models[-1], slots, form)[0]):
        fail("compile", f"program of model {len(models) - 1}", "another one", "that of model 0",
             "models of one architecture; tensors that models keep apart belong into buffers")
    dims = wide._dims(form)
    try:
        _prepare(wide, form, dims, _spread)
    except Error:  # the models may not accept values close to these
        _prepare(wide, form, dims, _copies)


def _dropping(model):
    """A copy in eval mode except dropout layers and attention and recurrent layers with dropout."""
    if not isinstance(model, nn.Module) or isinstance(model, nn.ModuleList):
        fail("compile", "dropout", type(model).__name__, "one nn.Module and n", "nw.compile(net, n=50, ...)")
    model = copy.deepcopy(model).eval()
    drops = [m for m in model.modules() if isinstance(m, _DropoutNd) and m.p > 0
             or isinstance(m, (nn.MultiheadAttention, nn.RNNBase)) and m.dropout > 0]
    if not drops:
        fail("compile", "dropout", "a module without any", "nn.Dropout or its like", "dropout=False")
    for module in [*drops, *(m for m in model.modules() if isinstance(m, nn.TransformerEncoderLayer))]:
        module.training = True  # in eval mode the encoder's layer runs one fused operator without dropout
    return model


def assemble(kind, models, n, in_dims, options, one_for_each=False):
    """The wide module, of class `kind`, that holds the models' tensors, nothing compiled yet, and the models as a list.
    `one_for_each`: all models share one copy of every tensor."""
    options = Options() if options is None else options
    if not isinstance(options, Options):
        fail("compile", "options", type(options).__name__, "nw.Options", "nw.Options.safe()")
    models = _models(models, n)
    _check_recordable(models[0])
    refuse_recomputed("compile", models[0])
    check_same(models)
    check_kept_apart(models)
    slots = slots_of(models[0])
    shared, one_for_all, weights, held_by_some = [], [], [], []
    for slot in slots:
        tensors = gather(models, slot)
        some = () if one_for_each else tied(models, tensors)
        one = one_for_each or len(models) > 1 and all(t is tensors[0] for t in tensors) and (n is None or bool(some))
        if some and not one:
            held_by_some.append(slot.name)
            if tensors[0].requires_grad:
                fail("compile", slot.name, "one tensor that models {} and {} hold, but not all".format(*some),
                     "one for each model, or one for all", "copy.deepcopy of every model, or requires_grad_(False) where it is not learned")
        captured = slot.kind == "attribute" and all(torch.equal(t, tensors[0]) for t in tensors[1:])
        shared.append(one or captured)
        one_for_all.append(one)
        weights.append(tensors[0].detach().clone(memory_format=torch.contiguous_format) if one or captured
                       else torch.stack([t.detach() for t in tensors]).contiguous())  # a stack keeps channels_last
    own = copy.deepcopy(models[0])
    wide = kind(own, slots, weights, shared, one_for_all, len(models), in_dims, options)
    wide.__dict__["_tied"] = tuple(held_by_some)
    wide.__dict__["_hooked"] = tuple(dict.fromkeys(name for model in models for name in hooked_parameters(model)))
    return wide, models


def _check_recordable(model):
    """Raises Error for modules whose operators a recording does not see."""
    for path, module in model.named_modules():
        if isinstance(module, WideModule):
            fail("compile", path_text(path), "a wide module", "PyTorch's own modules", "its models in an nn.ModuleList, called one by one")
        if isinstance(module, torch.jit.ScriptModule):
            fail("compile", path_text(path), "a module of TorchScript", "one that Python runs",
                 "the module as it was before torch.jit, or its file by the command workbench fuse")
        if any(isinstance(hook, SpectralNorm) for hook in module._forward_pre_hooks.values()):
            fail("compile", f"spectral norm of {path_text(path)}", "torch.nn.utils.spectral_norm, which keeps a computed weight "
                 "as an attribute", "parameters and buffers", "torch.nn.utils.parametrizations.spectral_norm")


def _models(models, n):
    if isinstance(models, nn.ModuleList):
        models = list(models)
    if isinstance(models, (list, tuple)):
        if not models:
            fail("compile", "models", "none", "at least one", "one for each")
        if n is not None and n != len(models):
            fail("compile", "n", n, f"{len(models)}, as many as there are models", "leaving n out")
        if all(isinstance(m, nn.Module) for m in models):
            return list(models)
        if len(set(map(id, models))) > 1:
            odd = next(m for m in models if not isinstance(m, nn.Module))
            fail("compile", "models", type(odd).__name__, "nn.Module", "one function with n=")
        models, n = models[0], len(models)
    if not isinstance(models, nn.Module) and not callable(models):
        advice = ("list(models.values())" if isinstance(models, Mapping) else "list(models)" if isinstance(models, Iterable) else "[model]")
        fail("compile", "models", type(models).__name__, "a list of nn.Module, or a function", advice)
    if n is None:
        fail("compile", "n", "none", "how many models", "n=8, or a list of models")
    if not isinstance(n, numbers.Integral) or isinstance(n, bool) or n < 1:
        fail("compile", "n", n, "a whole number of at least 1", "n=1")
    n = int(n)
    if not isinstance(models, nn.Module):
        models = FunctionModule(models)
    return [models] * n


def _arguments(sample):
    if isinstance(sample, dict):
        return (), sample
    return (tuple(sample) if isinstance(sample, (tuple, list)) else (sample,)), {}


def _prepare(wide, form, dims, widened):
    ours = [t if d is None else moved(widened(t, wide.n), 0, d) for t, d in zip(form.tensors, dims)]
    wide._prepare(Form(form.build(ours)), dims)


def _copies(sample, n):
    return sample.detach().unsqueeze(0).expand(n, *sample.shape).contiguous()


def _spread(sample, n):
    """Distinct inputs for N models, made from one model's; integers are repeated, as their valid range is unknown."""
    wide = _copies(sample, n)
    if not sample.is_floating_point() or sample.numel() == 0:
        return wide
    noise = torch.randn(wide.shape, generator=torch.Generator().manual_seed(7)).to(wide)
    spread = float(sample.double().std()) if sample.numel() > 1 else 1.0
    return wide + noise * (0.1 * (spread or 1.0))
