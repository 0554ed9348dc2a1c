"""What is read off a call's tensors: tracers, under which calls are refused (torch.compile is none of these: it skips wide
modules, a graph break), their device and what works on the CPU only, autocast, the dimensions of the models."""

import os

import torch
import torch.fx
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from . import _core
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


def device_of(tensors):
    """The one device that all tensors of a call lie on, weights first, each given with its name, ready for use."""
    device = tensors[0][1].device if tensors else torch.device("cpu")
    for what, t in tensors:
        expect_on(device, what, t)
    if device.type not in ("cpu", "cuda"):
        fail("device", device, "a module on it", "one on the CPU or on a CUDA device", "module.cpu()")
    if device.type == "cuda":
        reason = _core.open_cuda(os.path.dirname(_core.__file__))
        if reason:
            fail("device", device, f"no CUDA in this package ({reason})", "its plugin and a driver", "module.cpu()")
    return device


def expect_on(device, what, tensor):
    """Raises Error for a tensor on another device than the module's."""
    if tensor.device != device:
        fail("run", what, f"a tensor on {tensor.device}", f"one on {device} as the others", f'.to("{device}")')


def expect_cpu(thing, what, tensors, advice):
    """Raises Error if a tensor is not on the CPU. `thing`: what works on the CPU only."""
    for t in tensors:
        if t.device.type != "cpu":
            fail(thing, what, f"tensors on {t.device}", "tensors on the CPU", advice)


class Order:
    """The calls of a program on a GPU: one after the other, as all use its working memory, on the caller's stream."""

    def __init__(self, device):
        self.device, self._stream = device, None

    def join(self):
        """Has the current stream wait for the call before, if that was on another one."""
        if torch.cuda.is_current_stream_capturing():
            fail("run", f"call on {self.device}", "one in the capture of a CUDA graph", "one outside",
                 'nw.Options(mode="reduce-overhead"), which captures the call itself')
        stream = torch.cuda.current_stream(self.device)
        if self._stream is not None and self._stream != stream:
            stream.wait_stream(self._stream)
        self._stream = stream

    def refuse_gradients(self, tensors):
        """Raises Error for a call that might be differentiated."""
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            fail("backward", f"call on {self.device}", "tensors that require gradients", "none off the CPU",
                 'torch.no_grad() around the call, or nw.train(..., device="cuda:0") to train on a GPU')


def moved(tensor, source, target):
    """Moves the dimension of the models as `in_dims` says."""
    try:
        return tensor.movedim(source, target)
    except IndexError:
        fail("run", "in_dims", source or target, f"a dimension of {tuple(tensor.shape)}", "in_dims=0")


def autocast_of(tensors):
    """The dtype of autocast on the device that the tensors lie on, or False."""
    kind = "cuda" if tensors and tensors[0].is_cuda else "cpu"
    return torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind)


def dims_of(form, in_dims):
    """For each tensor of the call the dimension of the models, or None if they share it."""
    if in_dims == 0:
        return (0,) * len(form.tensors)
    args, kwargs = pytree.tree_unflatten(list(range(len(form.rest))), form.spec)
    each = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
    try:
        flat = pytree._broadcast_to_and_flatten((list(each), 0), pytree.tree_structure((list(args), kwargs)))
    except ValueError:
        flat = None
    if flat is None or any(d is not None and type(d) is not int for d in flat):
        fail("compile", "in_dims", in_dims, f"one for each of the {len(args)} arguments", "in_dims=0")
    return tuple(d for d, rest in zip(flat, form.rest) if rest is None)
