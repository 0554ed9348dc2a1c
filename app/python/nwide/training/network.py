"""Exports a user's module for `workbench train`, with the models' initial weights."""

import contextlib
import copy
import dataclasses
import inspect
import io
import logging
import os
import sys
import warnings

import torch
from torch import nn
from torch.export.graph_signature import OutputKind, TensorArgument
from torch.utils._pytree import TreeSpec, tree_leaves

from ..architecture import aliases_of, check_like, refuse_recomputed, slots_of
from ..errors import Error, fail, one_line
from ..guards import detached_data, plain_gradients
from ..recording import hooked_parameters, refuse_backward_hooks, untouched_randomness
from . import tensor_files


class Source:
    """Makes the models by number: from a class or factory, a list, or one module for all."""

    def __init__(self, given, net):
        self.given, self.net, self.weights = given, net, None
        self.listed = isinstance(given, (list, tuple, nn.ModuleList))
        self.single = isinstance(given, nn.Module) and not self.listed
        self.made_here = not self.listed and not self.single
        if self.listed and (not len(given) or not all(isinstance(m, nn.Module) for m in given)):
            odd = next((type(m).__name__ for m in given if not isinstance(m, nn.Module)), "an empty list")
            fail("train", "models", odd, "a list of nn.Module", "a class, as nw.train(Net, ...)")
        if not self.listed and not callable(given):
            fail("train", "models", type(given).__name__, "a class or factory, a module or a list of them",
                 "nw.train(Net, ...)")
        if net and (self.listed or self.single):
            fail("train", "net", "it with modules that are made", "a class or factory that takes it",
                 "nw.train(Net, net={...}, ...)")

    @property
    def name(self):
        given = self.given[0] if self.listed else self.given
        name = type(given).__name__ if isinstance(given, nn.Module) else getattr(given, "__name__", "")
        return name if name.isidentifier() else "models"  # of a lambda or a partial

    def start_from(self, weights):
        """Makes all models start from these weights, each in a module of its own."""
        if self.listed:
            fail("train", "weights", "them with modules that have values of their own", "a class, a factory or one module",
                 "leaving them out")
        self.weights = weights

    def module(self, number, seed):
        """The module with model `number`'s weights; a factory is called under torch.manual_seed(seed)."""
        made = self._module(number, seed)
        if self.weights:
            made = made if self.made_here else copy.deepcopy(made)
            self.weights.load(made, number)
        return made

    def _module(self, number, seed):
        if self.listed:
            return self.given[number]
        if self.single:
            return self.given
        with untouched_randomness(seed, [torch.empty(0)]):  # which lies on the default device
            made = self.given(**self.net)
        if not isinstance(made, nn.Module):
            fail("train", "factory", type(made).__name__, "an nn.Module", "a class of nn.Module")
        return made


def on_cpu(model):
    """The model, or a copy of it on the CPU where it has tensors on another device."""
    tensors = (*model.parameters(), *model.buffers())
    return model if all(t.device.type == "cpu" for t in tensors) else copy.deepcopy(model).cpu()


def takes_batch(loss):
    """Whether a loss is a function of (output, batch), all columns by name, and not of (output, target)."""
    try:
        return list(inspect.signature(loss).parameters)[1:2] == ["batch"]
    except (TypeError, ValueError):
        return False


def with_loss(model, loss, columns, more):
    """The model, its tensors as they are, with a forward that takes more arguments and also gives the loss. `columns`: of each
    of forward's arguments its name in the data; `more`: names in the data of what the loss alone looks at. Returns the model
    and the names of these arguments."""
    kind, names = type(model), list(columns)
    taken, added = set(names), []
    for column in more:
        name = column if column.isidentifier() and column not in taken else f"{column}_" if f"{column}_".isidentifier() else ""
        name = name if name and name not in taken else f"column_{len(added)}"
        taken.add(name)
        added.append(name)
    whole = takes_batch(loss)

    def forward(self, *arguments):
        inputs, others = arguments[:len(names)], arguments[len(names):]
        answer = kind.forward(self, **dict(zip(names, inputs)))
        batch = dict(zip([*columns.values(), *more], arguments))
        return answer, loss(answer, batch if whole else others[0])

    forward.__signature__ = inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                                               for name in ("self", *names, *added)])
    return _twin(model, forward), added


def giving(model, change):
    """The model, its tensors as they are, with a forward that gives `change` of its result."""
    kind = type(model)

    def forward(self, *arguments, **named):
        return change(kind.forward(self, *arguments, **named))

    forward.__signature__ = inspect.signature(kind.forward)
    return _twin(model, forward)


def refuse_what_the_loss_trains(model, loss, sample):
    """Raises Error if the loss of a `model` made by with_loss has trainable tensors that are no parameters of the model: they would
    stay as they are."""
    own = copy.deepcopy(model)
    known = {id(parameter) for one in (model, own) for parameter in one.parameters()}
    try:
        with untouched_randomness(0, own.parameters()), torch.enable_grad(), quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            open_nodes = [tree_leaves(call(own, sample))[-1].grad_fn]
    except Exception:  # torch.export raises a clearer error
        return
    names = {id(t): f" {name}" for name, t in loss.named_parameters()} if isinstance(loss, nn.Module) else {}
    seen = set()
    while open_nodes:
        node = open_nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        open_nodes += [before for before, _ in node.next_functions]
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in known:
            fail("train", "loss", f"a tensor{names.get(id(leaf), '')} {tuple(leaf.shape)} of its own that requires gradients",
                 "parameters of the network alone to learn",
                 "requires_grad_(False) for what stays as it is (a teacher), or a network that has it as a parameter and returns it")


def _twin(model, forward):
    """The same module, of a class with another forward."""
    kind = base = type(model)
    if isinstance(model, torch.fx.GraphModule):  # its copies have the forward of its graph
        if "train" in vars(model) or kind.train is not nn.Module.train:
            fail("train", "network", "a GraphModule with a train() of its own, and a function on its outputs",
                 "one with a forward for training and evaluation", "a loss by name, or the class that it was made of")
        base = nn.Module
    twin = base.__new__(base)
    vars(twin).update(vars(model))
    twin.__class__ = type(kind.__name__, (base,), {"forward": forward, "__module__": kind.__module__})
    return twin


OWN_LOOP = "nw.compile and a loop of your own, with hooks on the wide module and its parameters"
LAYERS = os.path.dirname(nn.modules.__file__)


def asks_for_its_form(model, sample):
    """Whether code other than PyTorch's layers reads `training` (the user's, or spectral_norm's) of a module in a call on
    `sample`: then the evaluation form must be exported separately."""
    asked = []

    def watched():
        def get(module):
            asked.append(not sys._getframe(1).f_code.co_filename.startswith(LAYERS))
            return vars(module)["training"]

        return property(get, lambda module, value: vars(module).update(training=value))

    own = copy.deepcopy(model)
    arguments, named = _arguments(own, sample)
    try:
        for training in (own.training, False):
            own.train(training)
            for module in own.modules():
                module.__class__ = type(type(module).__name__, (type(module),), {"training": watched()})
            with untouched_randomness(0, own.parameters()), torch.no_grad(), quiet():
                own(*arguments, **named)
            for module in own.modules():
                module.__class__ = type(module).__bases__[0]
    except Exception:  # it cannot be told
        return True
    return any(asked)


def switches_by_itself(module, *names):
    """Whether this module is none of PyTorch's layers and has code of its own for one of these methods."""
    return not type(module).__module__.startswith("torch.") and any(
        getattr(type(module), name) is not getattr(nn.Module, name) for name in names)


def outermost_that_train(model):
    """The modules with code of their own for train() that lie in no other such module."""
    return [model] if switches_by_itself(model, "train") else [
        found for child in model.children() for found in outermost_that_train(child)]


@contextlib.contextmanager
def switched_to_train(model):
    """Calls train() of the modules that train and have code of their own for it, as a loop in PyTorch does before it trains.
    Afterwards all modules have their modes again."""
    flags = {module: module.training for module in model.modules()}
    try:
        for module in outermost_that_train(model):
            if module.training:
                module.train(True)
        yield
    finally:
        for module, training in flags.items():
            module.training = training


def has_two_forms(model, sample):
    """Whether the evaluation form must be exported separately: some modules train while others are in evaluation form already
    (frozen batch norms, which the command would switch on), or code other than PyTorch's layers may tell the forms apart."""
    modes = {module.training for module in model.modules()}
    return True in modes and (False in modes or any(switches_by_itself(module, "train", "eval") for module in model.modules())
                              or has_its_own_buffers(model) or asks_for_its_form(model, sample))


def has_its_own_buffers(model):
    """Whether modules other than PyTorch's layers have buffers, which forward may write in both forms."""
    return any(module._buffers and not type(module).__module__.startswith("torch.nn.modules.") for module in model.modules())


def _refuse_assigned_buffers(model, arguments, named, train):
    """Raises Error if forward assigns buffers of submodules: torch.export loses them."""
    own = copy.deepcopy(model).train(train and model.training)
    before = {module: dict(module._buffers) for module in own.modules()}
    try:
        with untouched_randomness(0, own.parameters()), torch.no_grad():
            own(*arguments, **named)
    except Exception:  # torch.export raises a clearer error
        return
    for path, module in own.named_modules():
        for name, buffer in before[module].items():
            if path and module._buffers.get(name) is not buffer:
                fail("train", f"buffer {path}.{name}", "an assignment in forward, which torch.export loses in a submodule",
                     "a change in place", f"self.{name}.copy_(...)")


def _arguments(model, sample):
    """The arguments of forward, by position as far as the sample has its order, then by name."""
    parameters = inspect.signature(model.forward).parameters.values()
    positions = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    first = next((i for i, (name, at) in enumerate(zip(sample, positions)) if name != at), min(len(sample), len(positions)))
    return tuple(sample.values())[:first], dict(list(sample.items())[first:])


def call(model, sample):
    """Forward's result for these arguments by name."""
    arguments, named = _arguments(model, sample)
    return model(*arguments, **named)


def takes_as_well(model, sample, own):
    """Names of the arguments in `own` for which forward also runs, with results of the same dtypes, when that one argument is
    replaced by its value in `own`. The other arguments are those of `sample`."""
    def kinds(arguments):
        with untouched_randomness(0), torch.no_grad(), quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [getattr(leaf, "dtype", None) for leaf in tree_leaves(call(copy.deepcopy(model), arguments))]

    taken = []
    if not own:
        return taken
    with contextlib.suppress(Exception):  # export tells what is wrong with `sample`
        wanted = kinds(sample)
        for name in own:
            with contextlib.suppress(Exception):  # of operators that refuse two dtypes
                if kinds({**sample, name: own[name]}) == wanted:
                    taken.append(name)
    return taken


@dataclasses.dataclass
class Outputs:
    """What an exported forward gives."""

    spec: TreeSpec
    tensors: tuple[bool, ...]  # whether each leaf is a tensor, and no None or number


def export(model, sample, path, train):
    """Writes a torch.export file with a dynamic batch size, or with that of `sample` if the network is fixed to it, tensors by
    forward's arguments. Returns the Outputs."""
    arguments, named = _arguments(model, sample)
    refuse_recomputed("train", model)
    _refuse_assigned_buffers(model, arguments, named, train)
    refuse_backward_hooks("train", model, OWN_LOOP)
    dims = [torch.export.Dim("batch", min=1), torch.export.Dim.AUTO]
    flags = {module: module.training for module in model.modules()}
    reason = None
    try:
        if not train:
            model.eval()
        for shapes in [*({name: {0: dim} for name in sample} for dim in dims), None]:
            try:
                with untouched_randomness(0, model.parameters()), detached_data(), plain_gradients, warnings.catch_warnings(), \
                        quiet():
                    warnings.simplefilter("ignore")
                    program = torch.export.export(model, arguments, named, dynamic_shapes=shapes)
                    torch.export.save(program, path)
                return Outputs(program.call_spec.out_spec, tuple(isinstance(out.arg, TensorArgument) for out in
                                                                 program.graph_signature.output_specs
                                                                 if out.kind is OutputKind.USER_OUTPUT))
            except Error:
                raise
            except Exception as error:  # torch.export raises whatever its user's code does
                reason = reason or error
    finally:
        for module, training in flags.items():
            module.training = training
    fail("train", "forward", f"{one_line(reason)} from torch.export", "a network that it can export",
         "the module itself on the first rows of the data")


@contextlib.contextmanager
def quiet():
    """Silences the messages of attempts that may fail."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)


class Starts:
    """Writes a checkpoint for each model, and checks that the models differ in its tensors alone."""

    def __init__(self, folder):
        self.folder, self.count, self.first, self.model = folder, 0, None, None
        os.makedirs(folder)

    def add(self, model):
        number, self.count = self.count, self.count + 1
        known = {name: t for name, t in model.state_dict().items() if isinstance(t, torch.Tensor)}
        slots = slots_of(model)
        aliases = aliases_of(model, slots)
        others = {s.name: s.of(model) for s in slots if s.name not in known and s.name not in aliases}
        frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
        kinds = {name: f"{t.dtype} {tuple(t.shape)}{' without gradient' if name in frozen else ''}"
                 for name, t in known.items()}
        refuse_backward_hooks("train", model, OWN_LOOP)
        for name in hooked_parameters(model):
            fail("train", f"parameter {name} of model {number}", "a hook on it", "none", OWN_LOOP)
        if self.model is None:
            self.model = model
        elif model is not self.model:
            check_like(self.model, model, number, "train")
        if self.first is None:
            self.first = kinds, {name: t.detach().clone() for name, t in others.items()}
        for name in {**kinds, **self.first[0]}:
            if kinds.get(name) != self.first[0].get(name):
                fail("train", f"{name} of model {number}", kinds.get(name, "none"),
                     f"{self.first[0].get(name, 'none')} as in model 0", "models of one architecture")
        for name, tensor in others.items():
            if name not in self.first[1] or not torch.equal(tensor, self.first[1][name]):
                fail("train", f"{name} of model {number}", "values other than model 0's outside its state_dict",
                     "the same for all models", "register_buffer")
        tensor_files.save(os.path.join(self.folder, f"model-{number:06d}.safetensors"), known)
