"""Tracing of wide modules: torch.compile skips them (graph break), all other tracers get an Error."""

import torch
import torch.fx
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from .errors import fail

_KEYS = torch._C._TorchDispatchModeKey
_LOOKING = (_KEYS.FAKE, _KEYS.PROXY, _KEYS.FUNCTIONAL)


def refuse_traces(args):
    """Raises Error if the call's tensors have no values (traced, fake) or carry forward-mode tangents."""
    if torch._C._get_tracing_state() is not None:
        by = "torch.jit.trace"
    elif torch._C._functorch.peek_interpreter_stack() is not None:
        by = "a transform of torch.func, such as vmap or grad"
    elif torch.compiler.is_exporting() or (torch._C._len_torch_dispatch_stack() > 0 and any(
            torch._C._get_dispatch_mode(key) is not None for key in _LOOKING)):
        by = "torch.export or another trace"
    elif torch.fx._symbolic_trace.is_fx_symbolic_tracing():
        by = "torch.fx.symbolic_trace"
    elif forward_ad._current_level >= 0 and any(isinstance(t, torch.Tensor) and forward_ad.unpack_dual(t).tangent is not None
                                                for t in pytree.tree_leaves(args)):
        by = "forward-mode differentiation"
    else:
        return
    refuse(by)


def refuse(by):
    """Raises the Error that `by` cannot trace a wide module."""
    fail("forward", "call", f"one under {by}", "one that computes, of ordinary tensors",
         "the wide module as it is: one call computes all models, backward() gives their gradients")
