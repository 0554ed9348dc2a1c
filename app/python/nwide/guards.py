"""Functions and attributes of PyTorch that cannot be followed while this thread records a forward pass: they are refused by name,
or have others in their place."""

import contextlib
import functools
import threading

import torch
from torch import _VF
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils import checkpoint

from .errors import fail

_THREAD = threading.local()


@contextlib.contextmanager
def recording():
    """A context in which this thread records."""
    _THREAD.records = True
    try:
        yield
    finally:
        _THREAD.records = False


def _guarded(plain, *message):
    @functools.wraps(plain)
    def guarded(*args, **kwargs):
        if getattr(_THREAD, "records", False):
            fail("forward", *message)
        return plain(*args, **kwargs)
    return guarded


# A recorded program would not seed again.
torch.manual_seed = torch.random.manual_seed = _guarded(
    torch.manual_seed, "torch.manual_seed", "a call of it", "random numbers that every call draws anew", "a buffer with numbers drawn before")
# Recurrent kernels read how many sequences go on at each step, which a recording does not know.
_VF._pack_padded_sequence = _guarded(
    _VF._pack_padded_sequence, "pack_padded_sequence", "a packed sequence", "a padded batch",
    "the recurrent layer on the padded batch, and torch.gather of its outputs at lengths - 1")


class Replaced:
    """A context in which classes have other attributes, given by class and name. Threads may overlap."""

    def __init__(self, attributes):
        self._others, self._count, self._lock = attributes, 0, threading.Lock()
        self._own = {(owner, name): vars(owner).get(name) for owner, name in attributes}

    def __enter__(self):
        with self._lock:
            if self._count == 0:
                self._put(self._others)
            self._count += 1

    def __exit__(self, *_):
        with self._lock:
            self._count -= 1
            if self._count == 0:
                self._put(self._own)

    @staticmethod
    def _put(attributes):
        for (owner, name), value in attributes.items():
            if value is None:
                delattr(owner, name)  # a class below has it
            else:
                setattr(owner, name, value)


_numpy, _data, _hook, _needs = torch.Tensor.numpy, torch.Tensor.data, torch.Tensor.register_hook, torch.Tensor.requires_grad
_leaf, _node = torch.Tensor.is_leaf, torch.Tensor.grad_fn
_a_node = torch.ones((), requires_grad=True).clone().grad_fn
# What every torch.autograd.Function.apply calls, one that was bound before the recording too: as an attribute bound to no class.
_apply = torch._C._FunctionBase.__dict__["apply"]


def _array(tensor, **options):
    if torch._is_functional_tensor(tensor):
        fail("forward", "numpy", "an array of what depends on data", "torch's own operators", "them in place of NumPy's")
    return _numpy(tensor, **options)


def _detached(tensor):
    return tensor.detach() if getattr(_THREAD, "detaches", False) else _data.__get__(tensor)


def _assigned(tensor, value):
    if getattr(_THREAD, "detaches", False):
        fail("forward", "data", "an assignment to it", "a tensor that is changed in place", "copy_ under torch.no_grad()")
    _data.__set__(tensor, value)


def _recorded(value):
    """Whether it is a tensor of a recording, the engine's or torch.export's."""
    return isinstance(value, (FakeTensor, FunctionalTensor)) or isinstance(value, torch.Tensor) and torch._is_functional_tensor(value)


def _applied(function, *args, **kwargs):
    # Checkpoints are computed where they stand: what the backward pass computes again is chosen for the whole program.
    if function is checkpoint.CheckpointFunction:
        compute, _, *inputs = args
        return compute(*inputs)
    if function is checkpoint._NoopSaveInputs:
        return torch.empty(0)
    if any(_recorded(t) for t in args):
        fail("backward", function.__name__, "a torch.autograd.Function", "operators with PyTorch's own gradients",
             "x + (f(x) - x).detach() for gradients straight through")
    return _apply.__get__(None, function)(*args, **kwargs)


def _hooked(tensor, hook):
    if _recorded(tensor):
        fail("backward", "register_hook", "a hook on a tensor inside forward", "none",
             "one on the wide module's inputs, outputs or parameters, in a loop of your own")
    return _hook(tensor, hook)


def _needs_gradient(tensor):
    """In grad mode: recorded tensors seem not to, but PyTorch's would, as they depend on parameters. Inputs and buffers are as
    they are."""
    return _needs.__get__(tensor) or (
        torch.is_grad_enabled() and torch._is_functional_tensor(tensor) and tensor.is_floating_point()
        and id(tensor) not in getattr(_THREAD, "inputs", ()))


def _made_with_gradient(tensor):
    return torch._is_functional_tensor(tensor) and not isinstance(tensor, torch.nn.Parameter) and _needs_gradient(tensor)


def _is_leaf(tensor):
    return not _made_with_gradient(tensor) and _leaf.__get__(tensor)


def _graph_node(tensor):
    """For recorded tensors some node where PyTorch's tensor would have one: code asks whether it is None."""
    return _a_node if _made_with_gradient(tensor) else _node.__get__(tensor)


# Recorded tensors, which have no memory, refuse to become NumPy arrays.
without_numpy = Replaced({(torch.Tensor, "numpy"): _array})
_other_data = Replaced({(torch.Tensor, "data"): property(_detached, _assigned, _data.__delete__)})
# Forward refuses what gives gradients by code of its own, which a recording of PyTorch's operators does not see.
plain_gradients = Replaced({
    (torch.autograd.function._SingleLevelFunction, "apply"): classmethod(_applied), (torch.Tensor, "register_hook"): _hooked,
    (torch.Tensor, "requires_grad"): property(_needs_gradient, _needs.__set__), (torch.Tensor, "is_leaf"): property(_is_leaf),
    (torch.Tensor, "grad_fn"): property(_graph_node)})


def inputs_are(tensors):
    """Says which tensors are the inputs and buffers of what this thread records: they need a gradient as they say."""
    _THREAD.inputs = {id(t) for t in tensors}


@contextlib.contextmanager
def detached_data():
    """A context in which `tensor.data` is `tensor.detach()` in this thread, which PyTorch's dispatcher sees."""
    _THREAD.detaches = True
    try:
        with _other_data:
            yield
    finally:
        _THREAD.detaches = False
