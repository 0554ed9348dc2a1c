"""Makes PyTorch functions that would mix several models, or have no effect on them, raise Error."""

import functools

import torch
from torch import nn
from torch.optim import swa_utils
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .errors import fail
from .module import LIVE
from .optim import INSTEAD


def _wide_among(parameters):
    """Whether any parameter stacks those of several models."""
    ids = {id(p) for p in parameters}
    for wide in list(LIVE):
        if wide.n > 1 and ids & wide._stacked():
            return True
    return False


def _look(optimizer, *_):
    name = type(optimizer).__name__
    if name in INSTEAD and type(optimizer).__module__.startswith("torch.optim") and _wide_among(
            p for group in optimizer.param_groups for p in group["params"]):
        fail(f"torch.optim.{name}", "parameters", "those of a wide module, which it would mix across models",
             "an optimiser that keeps models apart", f"nw.optim.{INSTEAD[name].__name__}")


register_optimizer_step_pre_hook(_look)


def _guard(decorated, guarded):
    """Puts `guarded` of the function that PyTorch's decorator holds in its place: who imported the decorated one before calls it, too."""
    for cell in decorated.__closure__:
        if cell.cell_contents is decorated.__wrapped__:
            cell.cell_contents = guarded(decorated.__wrapped__)


def _guarded(plain):
    """Guards what torch.nn.utils.clip_grad_norm_ ends with, which would clip all models by one common norm."""
    @functools.wraps(plain)
    def _clip_grads_with_norm_(parameters, *args, **kwargs):
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if _wide_among(parameters):
            fail("torch.nn.utils.clip_grad_norm_", "parameters", "those of a wide module",
                 "one model's, or what all models share",
                 "nw.clip_grad_norm_(wide, max_norm), which clips each model by its own norm")
        return plain(parameters, *args, **kwargs)
    return _clip_grads_with_norm_


_guard(nn.utils.clip_grads_with_norm_, _guarded)


def _guarded_update(plain):
    """Guards torch.optim.swa_utils.update_bn, which looks for batch norms among a module's parts and finds none in a wide one."""
    @functools.wraps(plain)
    def update_bn(loader, model, *args, **kwargs):
        for module in model.modules():
            if module in LIVE and any(name.endswith("running_mean") for name, _ in module.named_buffers()):
                fail("torch.optim.swa_utils.update_bn", "model", "a wide module", "a module of one model",
                     "calls of wide.train() under torch.no_grad(), or wide.copy_to(models) and update_bn(loader, model)")
        return plain(loader, model, *args, **kwargs)
    return update_bn


_guard(swa_utils.update_bn, _guarded_update)
