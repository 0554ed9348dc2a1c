"""Runs a model so that the engine can record its operators."""

import collections
import contextlib
import copy
import gc
import inspect
import operator
import random
import sys
import traceback

import torch
import torch.nn.functional as F
from torch.nn.utils import parametrize
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from . import _core, guards
from .architecture import PLAIN, path_text
from .causes import cause_of, refuse_hidden, told
from .classes import contents
from .constant import Constant, same_values
from .errors import Error, fail
from .tracing import device_of, expect_on

HERE = __name__.rpartition(".")[0]


class Form:
    """The nesting of a call's arguments or results: the places of their tensors, and all non-tensor values."""

    def __init__(self, tree):
        leaves, self.spec = pytree.tree_flatten(tree)
        self.rest = tuple(None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves)
        self.tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.single = len(leaves) == 1 and self.rest[0] is None and self.spec.is_leaf()

    def build(self, tensors):
        if self.single:
            return tensors[0]
        left = iter(tensors)
        return pytree.tree_unflatten([next(left) if r is None else r[0] for r in self.rest], self.spec)

    def bare(self):
        """The same nesting without its tensors, to be kept beyond a call."""
        made = copy.copy(self)
        made.tensors = []
        return made

    def call(self, tensors):
        """Rebuilds a call's positional and keyword arguments from its tensors."""
        return pytree.tree_map_only(Constant, lambda constant: constant.tensor, self.build(tensors))

    def key(self):
        return self.spec, tuple([r if r is None else contents(r[0]) for r in self.rest])

    def same(self, other):
        """Whether another form has the same nesting and values, apart from tensors."""
        return self.spec == other.spec and all(
            a is b or None not in (a, b) and _alike(a[0], b[0]) for a, b in zip(self.rest, other.rest))


def argument_names(model, form):
    """A name for each tensor argument: that of forward's argument, followed by the path inside it if nested."""
    args, kwargs = pytree.tree_unflatten(list(range(len(form.rest))), form.spec)
    try:
        bound = inspect.signature(model.forward).bind(*args, **kwargs).arguments
        named = {}
        for name, value in bound.items():
            parameter = inspect.signature(model.forward).parameters[name]
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                named.update({f"{name}.{i}": v for i, v in enumerate(value)})
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
    except (TypeError, ValueError):
        named = {**{f"x{i}": v for i, v in enumerate(args)}, **kwargs}
    names = {}
    for name, value in named.items():
        try:
            leaves = pytree.tree_flatten_with_path(value)[0]
        except ValueError:  # a kind of node that was registered without names for its leaves
            leaves = [((i,), leaf) for i, leaf in enumerate(pytree.tree_leaves(value))]
        for path, leaf in leaves:
            steps = [str(getattr(step, "key", getattr(step, "idx", getattr(step, "name", step)))) for step in path]
            names[leaf] = ".".join([name, *steps])
    return [names[i] for i, rest in enumerate(form.rest) if rest is None]


@contextlib.contextmanager
def untouched_randomness(seed, tensors=()):
    """A context with random numbers from `seed`, on the CPU and on the GPUs that `tensors` lie on; restores the random state
    afterwards."""
    gpus = {t.device.index for t in tensors if t.device.type == "cuda"}
    own = [torch.default_generator, *(torch.cuda.default_generators[gpu] for gpu in sorted(gpus))]
    states = [(random.setstate, random.getstate()), *((generator.set_state, generator.get_state()) for generator in own)]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        states.append((numpy.random.set_state, numpy.random.get_state()))
    try:
        random.seed(seed)
        if numpy is not None:
            numpy.random.seed(seed)
        for generator in own:  # torch.manual_seed would seed all GPUs
            generator.manual_seed(seed)
        yield
    finally:
        for put, state in states:
            put(state)


@contextlib.contextmanager
def torch_threads(count):
    """A context in which PyTorch's operators use `count` threads; 0 or no integer changes nothing."""
    before = torch.get_num_threads()
    if type(count) is not int or count < 1 or count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def as_for_export(on):
    """Sets torch.export's flag, with which libraries skip checks of their inputs' values."""
    if not on:
        yield
        return
    before = torch.compiler._is_exporting_flag
    torch.compiler._is_exporting_flag = True
    try:
        yield
    finally:
        torch.compiler._is_exporting_flag = before


@contextlib.contextmanager
def parametrized_anew():
    """A context without parametrize.cached(), which would keep a recording's tensors for the next one."""
    before, parametrize._cache_enabled = parametrize._cache_enabled, 0
    try:
        yield
    finally:
        parametrize._cache_enabled = before


def modes(model):
    """The train/eval mode of each submodule."""
    return tuple(m.training for m in model.modules())


def set_modes(model, training):
    for module, on in zip(model.modules(), training):
        if module.training != on:
            module.training = on


def hooked_parameters(model):
    """The names of parameters with hooks, which change gradients or act on them."""
    return [name for name, p in model.named_parameters()
            if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None)]


def refuse_backward_hooks(thing, model, advice):
    """Raises Error for hooks that change gradients inside a model."""
    for path, module in model.named_modules():
        if module._backward_hooks or module._backward_pre_hooks:
            fail(thing, path_text(path), "a backward hook", "none inside a wide module", advice)


class Recorder:
    """One model's forward as a function of a flat list of tensors. `arguments`: the form of a call. `hooked`: parameters that
    had hooks."""

    def __init__(self, model, arguments, exporting=False, hooked=()):
        self.hooked = hooked
        self.model, self.arguments, self.exporting = model, arguments.bare(), exporting
        self.modes = modes(model)  # copies of a wide module may be in other modes at the time of a call
        self.captured = ()  # tensors of numbers that forward takes from outside of the model's parameters and the arguments
        self.needy = ()  # those among the model's buffers and attributes that need a gradient
        self.apart = set()  # which of them needed one in calls whose gradients reach none of them
        self.key = None  # of the arguments' form, if later recordings have to be of the same
        self.results = {}  # form of the results, by `_kind` of the inputs
        self.only = None  # that form, if it is the same for all
        self.place, self.cause = "", ""  # where the last call failed, and why, if its frames tell
        self.counted = ""  # the name of a number or text attribute that a call changed
        self.recorded = False  # a call recorded forward since `refuse_held`
        self.user = None  # a key of the wide module that called the program last
        self.device = None  # of all tensors, if it is known
        self.order = None  # of calls on a GPU
        self.names = argument_names(model, arguments)

    def __call__(self, tensors):
        self.place, self.cause, self.recorded = "", "", True
        for name, t in zip(self.names, tensors) if self.device is not None else ():
            expect_on(self.device, f"input {name}", t)
        guards.inputs_are((*tensors, *self.model.buffers()))
        if self.key is not None and self.arguments.key() != self.key:
            fail("backward", "argument", "another value than in the call", "the same until gradients are compiled", "a copy for the call")
        args, kwargs = self.arguments.call(tensors)
        before = {module: dict(vars(module)) for module in self.model.modules()}
        buffers = {module: dict(module._buffers) for module in self.model.modules()}
        now = modes(self.model)
        set_modes(self.model, self.modes)
        try:
            if torch.is_grad_enabled():
                refuse_backward_hooks("backward", self.model, "one on the wide module itself")
                for name in self.hooked:
                    fail("backward", f"parameter {name}", "a hook on it in one of the models", "none when they are compiled",
                         f"to remove it, and a hook on wide.get_parameter({name!r})")
            plain = guards.plain_gradients if torch.is_grad_enabled() else contextlib.nullcontext()
            with as_for_export(self.exporting), guards.without_numpy, guards.detached_data(), plain, parametrized_anew(), \
                    torch.compiler.set_stance("force_eager"):
                given = pytree.tree_flatten((args, kwargs))
                results = self.model(*args, **kwargs)
                _refuse_written(given, (args, kwargs))
                results = self._rebound(buffers, Form(results))
                for rest in results.rest:
                    refuse_hidden("forward", "result", rest and rest[0])
        except Exception as error:
            self.place = place_of(error, self.model)
            self.cause = cause_of(error)  # the engine's error has no frames
            raise
        finally:
            set_modes(self.model, now)
            for module, own in buffers.items():
                module._buffers.update(own)
            left = self._left_behind(before)
        if left:
            fail(left, "state", "a tensor that forward keeps outside its buffers", "one that it returns",
                 "register_buffer")
        form = self.only = results.bare()
        self.results[_kind(tensors, torch.is_grad_enabled())] = form
        if not all(form.same(other) for other in self.results.values()):
            self.only = None
        return results.tensors

    def _rebound(self, buffers, results):
        """Writes what forward assigned to a buffer's name (`self.mean = 0.9 * self.mean + ...`) into that buffer."""
        changed = []
        for path, module in self.model.named_modules():
            for name, own in buffers[module].items():
                now = module._buffers.get(name)
                if now is own:
                    continue
                form = [(t.shape, t.dtype) if isinstance(t, torch.Tensor) else None for t in (own, now)]
                if form[0] is None or form[0] != form[1]:
                    fail("forward", f"buffer {f'{path}.{name}'.lstrip('.')}", f"another one of {_said(now)}",
                         f"one of {_said(own)} as before", "to assign one of the same size and dtype")
                changed.append((own, now))
        if changed:  # results and other buffers may share the memory written below
            results.tensors = [t.clone() for t in results.tensors]
            for own, value in [(own, now.clone()) for own, now in changed]:
                own.copy_(value)
        return results

    def _left_behind(self, before):
        """Restores all attributes; returns the first that held a tensor of the recording."""
        found = ""
        for path, module in self.model.named_modules():
            own = vars(module)
            for name, value in list(own.items()):
                old = before.get(module, {}).get(name)
                if isinstance(value, PLAIN) and name != "training" and not (isinstance(old, PLAIN) and old == value):
                    self.counted = f"{path}.{name}".lstrip(".")
                if name.startswith("_") and name in ("_parameters", "_buffers", "_modules"):
                    continue
                if any(isinstance(leaf, torch.Tensor) and torch._is_functional_tensor(leaf)
                       for leaf in pytree.tree_leaves(value) if not isinstance(leaf, torch.nn.Module)):
                    found = found or f"{path}.{name}".lstrip(".")
                    if name in before.get(module, {}):
                        own[name] = before[module][name]
                    else:
                        del own[name]
        return found

    def form_of(self, tensors, dims, outputs):
        """The form of the results for such inputs of all models."""
        if self.only:
            return self.only
        one = [t if d is None else t[0] for t, d in zip(tensors, dims)]
        with_grad = _kind(one, any(t.requires_grad for t in outputs))
        return self.results[with_grad if with_grad in self.results else _kind(one, False)]


def _refuse_written(before, call):
    """Raises Error if forward wrote to a list or dict of the call: later calls, which do not run forward, would not. A user's own
    kind of node may make its leaves anew each time it is opened."""
    (leaves, spec), (now, its) = before, pytree.tree_flatten(call)
    if spec == its and all(map(operator.is_, leaves, now)):
        return
    again, own = pytree.tree_flatten(call)
    if (spec != its and its == own) or len(leaves) != len(now) or not all(
            a is b or (b is not c and _alike(a, b)) for a, b, c in zip(leaves, now, again)):
        fail("forward", "argument", "a list or dict that forward writes to", "arguments left as they are",
             "a copy, as dict(batch), and returning what is written")


def _alike(a, b):
    return contents(a, objects=False) == contents(b, objects=False)


def _kind(tensors, grad):
    """What recordings of one model may differ by, besides the arguments' form: sizes, dtypes, whether gradients are on."""
    return (grad, *((t.shape, t.dtype) for t in tensors))


def _said(value):
    return f"{value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__


def place_of(error, model):
    """The submodule and the line of the user's code that raised an exception."""
    paths = {id(module): path for path, module in model.named_modules()}
    path, line = "", ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        name = frame.f_globals.get("__name__", "")
        if name.startswith(HERE):
            continue
        owner = frame.f_locals.get("self")
        if id(owner) in paths:
            path = paths[id(owner)]
        if not name.startswith("torch."):
            line = f"{frame.f_code.co_filename}:{number}"
    return ", ".join(part for part in (f"in {path_text(path)}", f"at {line}" if line else "") if part)


def explained(error, recorder):
    """Turns an exception of a recording into an nw.Error that names its place."""
    text = told(error, recorder.cause)
    return Error(f"{text} ({recorder.place})" if recorder.place else text)


def placed(error, recorder):
    """Adds the place to an error of a recording; errors of autograd hooks stay as they are."""
    if not recorder.place and not isinstance(error, RuntimeError):
        return error
    own = explained(error, recorder)
    recorder.place, recorder.cause = "", ""  # of this error alone
    return own


def record(recorder, tensors, parameters, buffers, seed=0):
    """Records once under a seed. Records ordinary tensors even under inference_mode:
    functionalization cannot follow in-place changes of inference tensors."""
    try:
        held = [*tensors, *(t for _, t in (*parameters, *buffers))]
        with torch.inference_mode(False), untouched_randomness(seed, held), guards.recording():
            return _core.record(recorder, parameters, buffers, tensors, recorder.names)
    except Exception as error:
        raise explained(error, recorder) from error


def refuse_held(recorder):
    """Raises Error if forward still holds tensors that it made in the recording that has just ended: they have no values."""
    recorder.recorded = False
    if _core.recorded_are_held():
        gc.collect()  # frees what is in cycles alone
    if _core.recorded_are_held():
        fail("forward", "tensor", "one that forward keeps outside of the model, as in a list or by a hook", "one that it returns",
             "returning it")


def see(model, slots, form, seed=1):
    """Records one model's call. Returns the recording, whether it needs torch.export's flag, and the Recorder."""
    for rest in form.rest:
        refuse_hidden("forward", "argument", rest and rest[0])
    for exporting in (False, True):
        recorder = Recorder(model, form, exporting)
        inputs = zip([f"input {name}" for name in recorder.names], form.tensors)
        device_of([*((slot.name, slot.of(model)) for slot in slots), *inputs])
        try:
            seen = record(recorder, form.tensors, *named(model, slots), seed)
            break
        except Error as error:
            if exporting or "data-dependent" not in str(error):
                raise
    refuse_held(recorder)
    for name in seen.updates:
        if name in recorder.names:
            fail("forward", f"input {name}", "a change in place", "an input left as it is", f"{name} = {name}.clone()")
    return seen, exporting, recorder


def named(model, slots):
    """A model's parameters and its other tensors, two dicts by name."""
    parameters, others = [], []
    for slot in slots:
        (parameters if slot.kind == "parameter" else others).append((slot.name, slot.of(model)))
    return parameters, others


def look(model, slots, form, dropping=False):
    """`dropping`: only layers of dropout are in train mode. Returns whether a call must be recorded with the flag of torch.export
    set, by which libraries leave out checks of values, the names of what it changes, and the tensors that forward takes from outside.
    Refuses what another call, with other chance outside of torch, would do otherwise."""
    if dropping:
        refuse_left_out(model, form)
    one, exporting, recorder = see(model, slots, form, seed=1)
    before = form.key()
    other, _, again = see(model, slots, form, seed=2)
    what = "program" if differ(one, other) else "" if recorder.only.same(again.only) else "result that is no tensor"
    if what:
        if recorder.counted:
            fail("forward", what, f"another one in each call, in which {recorder.counted} changes", "one that depends on sizes alone",
                 f"a buffer in place of {recorder.counted}, and torch.where for a branch on it")
        fail("forward", what, "another one in another call", "one that depends on sizes alone",
             "torch's own random numbers in place of random's and NumPy's")
    if form.key() != before:
        fail("forward", "argument", "a change of what it holds in every call", "an argument left as it is", "to return the value")
    outside = [a for a, b in zip(one.constants, other.constants) if a is b and (a.is_floating_point() or a.is_complex())]
    return exporting, one.updates, outside


def _drops(function, args, kwargs):
    """Whether a call of a function of PyTorch is one of dropout, or of attention with dropout, that leaves something out."""
    if function in (F.scaled_dot_product_attention, F.multi_head_attention_forward):
        place = 4 if function is F.scaled_dot_product_attention else 10
        return bool(kwargs.get("dropout_p", args[place] if len(args) > place else 0)) and kwargs.get("training", True)
    if "dropout" not in function.__name__:
        return False
    p, training = (kwargs.get(name, args[place] if len(args) > place else 1) for place, name in ((1, "p"), (2, "training")))
    return bool(p) and bool(training)


class _Draws(TorchFunctionMode):
    """Counts calls of dropout by the submodule whose code makes them."""

    def __init__(self, model):
        super().__init__()
        self._paths, self.counts = {id(module): path for path, module in model.named_modules()}, collections.Counter()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if _drops(function, args, kwargs or {}):
            owners = (id(frame.f_locals.get("self")) for frame, _ in traceback.walk_stack(None))
            self.counts[next((self._paths[owner] for owner in owners if owner in self._paths), "")] += 1
        return function(*args, **(kwargs or {}))


def refuse_left_out(model, form):
    """Raises Error for dropout that a module draws in its own train mode, as by F.dropout(x, p, self.training), where only layers of
    dropout are in train mode."""
    counts = []
    for training in (False, True):
        own = copy.deepcopy(model)
        for module in own.modules():
            if training and not any(name.startswith("running_") for name in module._buffers):
                module.training = True
        try:
            with torch.inference_mode(False), torch.no_grad(), untouched_randomness(0, [*form.tensors, *own.parameters()]), \
                    _Draws(own) as draws:
                args, kwargs = form.call([t.clone() for t in form.tensors])
                own(*args, **kwargs)
        except Exception:
            return  # what fails in eval mode is refused when it is recorded; train mode may need more than these arguments
        counts.append(draws.counts)
    for path in counts[1] - counts[0]:
        fail("compile", "dropout", f"functional dropout in {path_text(path)}, which eval mode leaves out", "layers such as nn.Dropout",
             "net.train(), its batch norms in eval(), and nw.compile(net, n=50, share_weights=True) without dropout=True")


def differ(one, other):
    """Whether two recordings differ in program or constants."""
    return one.program != other.program or len(one.constants) != len(other.constants) or not all(
        same_values(a, b) for a, b in zip(one.constants, other.constants))


def refuse_cut_off(recorder, tensors, dims):
    """Raises Error if a gradient of this call would reach a tensor that is no parameter of the model, which a program gives none."""
    needs = tuple([t.requires_grad for t in recorder.captured])
    if not any(needs) or needs in recorder.apart:
        return
    own = copy.deepcopy(recorder.model)
    set_modes(own, recorder.modes)
    inputs = [(t if d is None else t.select(0, 0)).detach() for t, d in zip(tensors, dims)]
    held = [*inputs, *own.parameters(), *own.buffers()]
    with torch.inference_mode(False), torch.enable_grad(), untouched_randomness(0, held), as_for_export(recorder.exporting):
        args, kwargs = recorder.arguments.call(inputs)
        results = [t for t in pytree.tree_leaves(own(*args, **kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
    known = {id(p) for p in own.parameters()}
    nodes, seen = [t.grad_fn for t in results if t.grad_fn is not None], set()
    reached = [t for t in results if t.grad_fn is None]
    while nodes:
        node = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        reached += [node.variable] if hasattr(node, "variable") else []
        nodes += [before for before, _ in node.next_functions if before is not None]
    names = {id(t): f"{path}.{name}".lstrip(".") for path, module in own.named_modules()
             for name, t in [*module._buffers.items(), *vars(module).items()] if isinstance(t, torch.Tensor)}
    for t in reached:
        if id(t) in names:
            fail("backward", f"tensor {names[id(t)]}", "one that needs a gradient and is no parameter", "parameters and arguments",
                 "nn.Parameter, or requires_grad_(False)")
        if id(t) not in known:
            fail("backward", f"tensor {tuple(t.shape)} from outside of the model", "one that needs a gradient", "parameters and arguments",
                 "passing it as an argument, an nn.Module that has it, or t.detach() where it needs none")
    recorder.apart.add(needs)


def batched(model, slots, recorder, tensors, shared, compiled=False):
    """All models in one call by torch.vmap of functional_call; `compiled`: as torch.compile makes it. A function of
    whether the outputs have to be `[N, ...]`. `tensors`: inputs, then weights as `slots`, `[N, ...]` or, where
    `shared`, once for all."""
    one, state, state_dims, dims = _functional(model, slots, recorder, tensors, shared)
    mapped = torch.vmap(one, in_dims=(state_dims, dims), randomness="different")
    if compiled:
        mapped = torch.compile(mapped, dynamic=False)
    return _quietly(lambda _: mapped(state, tensors[:len(dims)]), recorder, state)


def looped(model, slots, recorder, tensors, shared, compiled=False):
    """The same with one model after the other, as in a loop over a (compiled) module."""
    one, state, state_dims, dims = _functional(model, slots, recorder, tensors, shared)
    own = torch.compile(one, dynamic=False) if compiled else one
    n = next(t.shape[0] for t, is_shared in zip(tensors, shared) if not is_shared)

    def of(i, tensor, dim):
        return tensor if dim is None else tensor[i]

    states = [{name: of(i, t, state_dims[name]) for name, t in state.items()} for i in range(n)]
    inputs = [[of(i, t, dim) for t, dim in zip(tensors, dims)] for i in range(n)]

    def call(stacked):
        results = list(map(own, states, inputs))
        return [torch.stack(each) for each in zip(*results)] if stacked else results
    return _quietly(call, recorder, state)


def _functional(model, slots, recorder, tensors, shared):
    """One model as a function of its state and inputs; the state of all by name, and for each tensor of the state
    and of the inputs the dimension that counts models."""
    own = copy.deepcopy(model)
    count = len(tensors) - len(slots)
    dims = [None if one else 0 for one in shared]
    state, state_dims = {}, {}
    for slot, tensor, dim in zip(slots, tensors[count:], dims[count:]):
        if slot.kind != "attribute":
            state[slot.name], state_dims[slot.name] = tensor, dim
        elif dim is None:
            slot.of(own).data = tensor
        else:
            fail("vmap", slot.name, "a tensor outside of parameters and buffers", "one that functional_call replaces",
                 "register_buffer")

    def one(state, inputs):
        args, kwargs = recorder.arguments.call(inputs)
        results = torch.func.functional_call(own, state, args, kwargs)
        return [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
    return one, state, state_dims, dims[:count]


def _quietly(call, recorder, state):
    """Runs `call` without gradients: under inference_mode if that works, else no_grad."""
    def quietly(quiet, stacked):
        with quiet(), as_for_export(recorder.exporting):
            return call(stacked)

    quiet = torch.inference_mode
    before = {name: t.clone() for name, t in state.items()}
    try:
        quietly(quiet, True)
    except RuntimeError:
        quiet = torch.no_grad
    finally:
        for name, t in before.items():
            state[name].copy_(t)
    return lambda stacked: quietly(quiet, stacked)


def separate(model, slots, arguments, tensors):
    """A separate model with other tensors, as a function of a flat list of tensors."""
    own = copy.deepcopy(model)
    with torch.no_grad():
        for slot, tensor in zip(slots, tensors):
            slot.of(own).data = tensor

    def run(inputs):
        args, kwargs = arguments.call(inputs)
        return [leaf for leaf in pytree.tree_leaves(own(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
    return run
