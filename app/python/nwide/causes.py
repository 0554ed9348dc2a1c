"""Messages for modules that cannot be recorded: the cause and a workaround in one line."""

import collections.abc
import dataclasses
import re
import traceback

import torch
from torch.distributions import Distribution
from torch.nn.modules.batchnorm import _BatchNorm

from .architecture import PLAIN
from .constant import Constant
from .errors import Error, fail, one_line

_CONSTANT = "or nw.constant(...) in every call for an argument that is the same for all models"
_NUMBERS = f"a tensor in place of item(), int(), float() and branches on them (torch.where), {_CONSTANT}"
_SIZES = f"a mask of fixed size instead of selecting by data, {_CONSTANT}"
# Texts in the engine's errors, which do not know Python's arguments, and the advice for each.
_ADVICE = (("a Python number that depends on an input or parameter", _NUMBERS), ("a result shape that depends on", _SIZES),
           ("; try shared_inputs", "nw.pack, or in_dims=None for an input that all models share"))
# Texts in PyTorch's errors, and the advice for each.
_FOREIGN = (
    (r"tolist\(\) shouldn't be called",
     "tolist: got Python numbers of what depends on data, expected tensors; try torch's own operators"),
    ("NestedTensorImpl",
     "nested tensors: got what nn.TransformerEncoder makes of a padding mask in eval, expected plain tensors; try "
     "nn.TransformerEncoder(..., enable_nested_tensor=False)"),
    (r"HigherOrderOperator (\w+)",
     "torch.{0}: got functions that it chooses between or repeats, expected PyTorch's plain operators; try torch.where in place of a "
     "branch, a loop of fixed length"),
    ("element 0 of tensors does not require grad",
     "autograd: got a gradient inside of forward, which is recorded without grad mode, expected one that needs none; try "
     "torch.func.grad, or torch.enable_grad() around it for a gradient with respect to an input"))
# Where torch.distributions checks values.
_VALIDATING = (Distribution.__init__.__code__, Distribution._validate_sample.__code__)


def told(error, cause):
    """Turns an exception raised while recording into a one-line Error; `cause`: what `cause_of` says of it."""
    if cause:
        return f"[forward] {cause}"
    text = str(error)
    if isinstance(error, Error):
        advice = next((advice for words, advice in _ADVICE if words in text), None)
        return f"{text.rpartition('; try ')[0]}; try {advice}" if advice else text
    for pattern, line in _FOREIGN:
        found = re.search(pattern, text)
        if found:
            return f"[forward] {line.format(*found.groups())}"
    return f"[forward] call: got {one_line(error)}, expected an answer; try the model itself on this input"


def cause_of(error):
    """The message for an exception whose cause only the code that raised it tells; "" for others."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename.endswith("_tensor_str.py"):
            return "print: got a tensor's values as text, expected none inside of forward; try its shape, or to print results"
        owner = frame.f_locals.get("self")
        if "data-dependent" in str(error) and frame.f_code in _VALIDATING:
            return ("torch.distributions: got a data-dependent check of values, expected none inside of forward; try "
                    "validate_args=False")
        if "data-dependent" in str(error) and isinstance(owner, _BatchNorm) and owner.momentum is None:
            return ("batch norm: got momentum=None in train mode, where a counter says how far statistics move, expected a number; "
                    "try momentum=0.1, or eval()")
    return ""


def refuse_hidden(thing, what, value):
    """Raises Error if tensors lie in objects that PyTorch's pytree does not open: they would become constants."""
    if _hides_tensors(value):
        name = type(value).__name__
        fail(thing, what, f"tensors inside of {name}, which torch.utils._pytree does not open",
             "tuples, lists, dicts or registered dataclasses of tensors",
             "use_cache=False" if name.endswith("Cache") else  # as transformers' models call theirs
             f"torch.export.register_dataclass({name})" if dataclasses.is_dataclass(value) else "a tuple or dict")


def _hides_tensors(value, depth=3):
    """Whether `value` holds tensors that PyTorch's pytree does not see."""
    if isinstance(value, torch.Tensor):
        return True
    if isinstance(value, (*PLAIN, Constant, type, torch.nn.Module)) or callable(value) or depth == 0:
        return False
    if isinstance(value, collections.abc.Iterator):
        return True
    if isinstance(value, collections.abc.Mapping):
        parts = value.values()
    elif isinstance(value, (list, tuple, collections.abc.Set, collections.deque)):
        parts = value
    else:
        parts = vars(value).values() if hasattr(value, "__dict__") else [
            getattr(value, name) for name in getattr(value, "__slots__", ()) if hasattr(value, name)]
    return any(_hides_tensors(part, depth - 1) for part in parts)
