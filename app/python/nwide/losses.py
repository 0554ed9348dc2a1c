"""Losses and gradient clipping for each model separately."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch.autograd import forward_ad

from . import _core
from .errors import fail
from .module import WideModule

_MEANS = (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy,
          F.binary_cross_entropy_with_logits, F.soft_margin_loss, F.poisson_nll_loss)
_TENSORS, _DTYPES = (torch.Tensor, torch.nn.Parameter), (torch.float32, torch.float64, torch.long)


def per_model(loss: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Turns a loss of one model into a function of tensors `[N, ...]` that returns `[N]`. The gradient of its sum is each
    model's own gradient.

    `nw.per_model(F.cross_entropy)(wide(x), y).sum().backward()`. Arguments without a dimension for models (a number, a tensor
    among the keyword arguments) is the same for all.
    """
    def of_each(*args: Any, **kwargs: Any) -> torch.Tensor:
        if len(args) == 1 and isinstance(kwargs.get("target"), torch.Tensor):
            args = *args, kwargs.pop("target")
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if not tensors or any(t.dim() == 0 or t.shape[0] != tensors[0].shape[0] for t in tensors):
            fail("per_model", "arguments", [tuple(t.shape) for t in tensors], "tensors [N, ...]", "y.expand(N, *y.shape)")
        quick = _quickly(loss, args, kwargs)
        if quick is not None:
            return quick
        dims = tuple(0 if isinstance(a, torch.Tensor) else None for a in args)
        try:
            made = torch.vmap(lambda *own: loss(*own, **kwargs), in_dims=dims, randomness="different")(*args)
        except RuntimeError:  # vmap refuses losses with sizes that depend on data
            own = [[a if d is None else a[i] for a, d in zip(args, dims)] for i in range(len(tensors[0]))]
            made = torch.stack([loss(*each, **kwargs) for each in own])
        if made.dim() != 1:
            fail("per_model", "loss", f"{tuple(made.shape[1:])} for each model", "one number", "reduction='mean'")
        return made
    return of_each


def _only_autograd():
    """Whether nothing but autograd intercepts calls, as `_core`'s losses require: no torch.compile, vmap, trace or dispatch mode."""
    return (not torch.compiler.is_dynamo_compiling() and torch._C._functorch.peek_interpreter_stack() is None
            and forward_ad._current_level < 0 and not torch._C._is_tracing() and not torch._C._len_torch_dispatch_stack())


def _plain(tensor):
    """Whether `_core`'s losses can read the tensor's memory: one on the CPU, of a dtype that they have."""
    return type(tensor) in _TENSORS and tensor.is_cpu and tensor.dtype in _DTYPES and not tensor.is_neg()


def _quickly(loss, args, kwargs):
    """Computes a common PyTorch loss with mean reduction for all models in one call; None for any other loss."""
    if len(args) != 2 or not all(isinstance(a, torch.Tensor) for a in args):
        return None
    out, target = args
    if _only_autograd() and _plain(out) and _plain(target) and out.is_floating_point():
        if loss is F.cross_entropy and not kwargs.keys() - {"ignore_index"} and out.dim() == 3 and target.dtype == torch.long \
                and target.shape == out.shape[:2] and out.numel() > 0:
            return _core.cross_entropy(out, target, kwargs.get("ignore_index", -100))
        if loss is F.mse_loss and not kwargs and out.shape == target.shape and out.dtype == target.dtype and out.numel() > 0:
            return _core.mse_loss(out, target)
    if not kwargs and out.shape == target.shape and any(loss is mean for mean in _MEANS):  # one may have no hash
        return loss(out, target, reduction="none").reshape(len(out), -1).mean(1)
    if loss is not F.cross_entropy or kwargs.keys() - {"ignore_index"} or target.is_floating_point() or out.dim() < 3:
        return None
    if target.dim() < 2:
        fail("per_model", "target", tuple(target.shape), f"{(*out.shape[:2], *out.shape[3:])}, the rows of each model",
             "y.expand(N, *y.shape) where all models have the same")
    each = F.cross_entropy(out.flatten(0, 1), target.flatten(0, 1), reduction="none", **kwargs)
    counted = (target != kwargs.get("ignore_index", -100)).flatten(1).sum(1)
    return each.view(out.shape[0], -1).sum(1) / counted


def clip_grad_norm_(wide: WideModule, max_norm: Any, norm_type: float = 2.0, *,
                    params: torch.Tensor | Iterable[torch.Tensor] | None = None) -> torch.Tensor:
    """torch.nn.utils.clip_grad_norm_ for each model by its own gradient norm. `max_norm`: one number, or one per model.
    `params`: some of the parameters, in place of all. Returns the norms, `[N]`."""
    if not isinstance(wide, WideModule):
        fail("clip_grad_norm_", "module", type(wide).__name__, "a wide module", "torch.nn.utils.clip_grad_norm_")
    names, stacked = {id(p): name for name, p in wide.named_parameters()}, wide._stacked()
    gradients = []
    for p in wide.parameters() if params is None else [params] if isinstance(params, torch.Tensor) else params:
        if id(p) not in names:  # its first dimension may not be the models of this wide module
            fail("clip_grad_norm_", "params", f"{tuple(p.shape)} that the wide module has not", "some of its parameters",
                 "torch.nn.utils.clip_grad_norm_ for others")
        if p.grad is None:
            continue
        if id(p) not in stacked and any(p is other for other in wide._held_once()):
            fail("clip_grad_norm_", names[id(p)], "one parameter for all models", "each model's own",
                 "torch.nn.utils.clip_grad_norm_ over such parameters, and params= with each model's own")
        gradients.append(p.grad)
    if not gradients:
        return torch.zeros(wide.n, device=next((p.device for p in wide.parameters()), None))
    with torch.no_grad():
        norms = torch.stack([torch.linalg.vector_norm(g.reshape(len(g), -1), norm_type, 1) for g in gradients])
        norm = torch.linalg.vector_norm(norms, norm_type, 0)
        most = torch.as_tensor(max_norm, dtype=norm.dtype, device=norm.device)
        if most.shape not in ((), (wide.n,)):
            fail("clip_grad_norm_", "max_norm", f"numbers {list(most.shape)}", f"{wide.n}, one for each model",
                 "one number for all")
        scale = (most / (norm + 1e-6)).clamp(max=1.0)
        for g in gradients:
            g.mul_(scale.view(-1, *[1] * (g.dim() - 1)))
    return norm
