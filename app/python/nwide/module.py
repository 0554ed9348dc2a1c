"""N models as one nn.Module."""

import copy
import json
import operator
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import nn

from . import _core
from .architecture import aliases_of, check_like, check_values, refuse_own_state, state_of
from .errors import Error, fail, one_line
from .one import Branch, One, Parts, own_eval, own_train, put, refuse_late
from .options import Options, check_number
from .progress import Progress
from .recording import (Form, Recorder, argument_names, batched, look, looped, modes, named, placed, refuse_cut_off, refuse_held,
                        separate, torch_threads)
from .results import Benchmark, Coverage, Steps, Validation
from .rows import Routed, Some, numbers_of_models
from .tracing import Order, autocast_of, device_of, dims_of, expect_cpu, moved, refuse, refuse_traces

COMPILING = threading.RLock()  # recordings set the process's random state and flags
KEEPING = threading.Lock()  # guards the caches of compiled programs
os.register_at_fork(after_in_child=lambda: globals().update(  # locks held at a fork are never released in the child
    COMPILING=threading.RLock(), KEEPING=threading.Lock()))
LIVE = weakref.WeakSet()  # all wide modules
UNSEEN = ("a wide module is compiled already: torch.compile runs it as it is, between what it compiles, which fullgraph=True "
          "and torch.export do not allow; try it without them")
MOST_FORMS = 32  # call signatures kept compiled: non-tensor arguments, modes, dtypes


class WideModule(nn.Module):
    """N models of one architecture: takes inputs `[N, ...]` and returns the models' outputs `[N, ...]`.

    `parameters()`, `state_dict()` and so on give the stacked tensors of the N models, `[N, ...]`, under the
    names of one model; a tensor that all models share (the same object) is there once, without N.
    Every call uses the current values of the weights, unless `freeze()` was called.
    """

    _unseen = None  # `_call` as torch.compile sees it: run eagerly, with a graph break
    _strict = False  # True: a strategy that does not apply is an error instead of a fallback
    _hooked = ()  # names of parameters that had hooks in one of the models: copies have none
    _dropping = None  # the modes in which only layers of dropout are in train mode
    _tied = ()  # names of tensors that some of the models hold as one

    def __init__(self, model, slots, weights, shared, one_for_all, n, in_dims, options):
        super().__init__()
        # Bypasses nn.Module's registration: these are not part of the state.
        self.__dict__.update(_modules=Parts(), _model=model, _slots=slots, _shared=shared, _one_for_all=one_for_all, _options=options,
                             _in_dims=in_dims, _frozen=False, _cores=OrderedDict(), _places=[], _modes=None, _quick=None,
                             _latest=None, _fixed=None, _fixed_of=None, _some={}, _turn=threading.Lock(),
                              _own_name=object(), _recorder=None, _rows_checked=weakref.WeakKeyDictionary(), _plain_state=set())
        self.n = n
        if WideModule._unseen is None:  # late, because it imports torch.compile
            WideModule._unseen = staticmethod(torch.compiler.disable(WideModule._call, reason=UNSEEN))
        LIVE.add(self)
        self.register_load_state_dict_post_hook(WideModule._loaded)
        for path, _ in model.named_modules():
            self._branch(path)
        for slot, tensor in zip(slots, weights):
            self._put(slot, tensor)
        self._find_places()
        for other, name in aliases_of(model, slots).items():
            self._tie(other, name)
        for path, module in model.named_modules():
            self._branch(path).training = module.training

    def __setattr__(self, name, value):
        if name not in ("n", "training") and "_model" in self.__dict__:
            refuse_late(self._model, name, name)
        before = vars(self).get(name)
        super().__setattr__(name, value)
        if name == "training" and "_model" in self.__dict__:
            self._model.training = value
            self._modes_changed(value != before)

    train, eval = own_train, own_eval

    def _modes_changed(self, differ=True):
        self.__dict__.update(_modes=None, _quick=None)
        if differ:
            self._check_rows_again()
        if self._frozen:
            self._forget()

    def _check_rows_again(self):
        """Forgets for which programs a check of `at(ids, rows=True)` was tried, and passed: other weights may fail it."""
        self.__dict__["_rows_checked"] = weakref.WeakKeyDictionary()

    # ------------------------------------------------------------------ the tree of names

    def _branch(self, path):
        at, so_far = self, ""
        for step in path.split(".") if path else []:
            so_far = f"{so_far}.{step}".lstrip(".")
            if step not in at._modules:
                if isinstance(vars(at).get(step), nn.Module):  # torch.func.functional_call would find this one
                    fail("compile", f"submodule {so_far}", "a name that a wide module has for itself", "another one",
                         f"to rename {step}")
                at._modules[step] = Branch(self, so_far)
            at = at._modules[step]
        return at

    # A part or tensor may have the name of an attribute of this class, such as `plan`, which nn.Module would find instead.

    def get_submodule(self, target: str) -> nn.Module:
        at = self
        for step in target.split(".") if target else []:
            if step not in at._modules:
                raise AttributeError(f"{at._get_name()} has no attribute `{step}`")  # as nn.Module says
            at = at._modules[step]
        return at

    def get_parameter(self, target: str) -> nn.Parameter:
        path, _, leaf = target.rpartition(".")
        own = self.get_submodule(path)._parameters
        return own[leaf] if leaf in own else super().get_parameter(target)

    def get_buffer(self, target: str) -> torch.Tensor:
        path, _, leaf = target.rpartition(".")
        own = self.get_submodule(path)._buffers
        return own[leaf] if leaf in own else super().get_buffer(target)

    def _put(self, slot, tensor):
        at = self._branch(slot.path)
        if slot.kind == "parameter":
            at._parameters[slot.leaf] = nn.Parameter(tensor, requires_grad=slot.of(self._model).requires_grad)
        elif slot.kind == "buffer":
            at._buffers[slot.leaf] = tensor
            if not slot.persistent:
                at._non_persistent_buffers_set.add(slot.leaf)
        else:
            vars(at).setdefault("_unregistered", {})[slot.leaf] = tensor

    def _find_places(self):
        """Finds where each weight is stored. Tracing or parametrising a module may replace its dictionary of parameters,
        so every call looks them up by name."""
        kinds = {"parameter": "_parameters", "buffer": "_buffers", "attribute": "_unregistered"}
        self.__dict__["_places"] = [(self._branch(slot.path), kinds[slot.kind], slot.leaf) for slot in self._slots]

    def _tie(self, other, name):
        source_path, _, source = name.rpartition(".")
        path, _, leaf = other.rpartition(".")
        source_at, at = self._branch(source_path), self._branch(path)
        for kind in ("_parameters", "_buffers"):
            if source in getattr(source_at, kind):
                getattr(at, kind)[leaf] = getattr(source_at, kind)[source]

    def _weights(self):
        try:
            return [at.__dict__[kind][leaf] for at, kind, leaf in self._places]
        except KeyError as error:
            fail("wide", f"weight {error}", "none of this name", "the models' own, as tensors", "parametrisation or pruning of the "
                 "models before nw.compile")

    def _stacked(self):
        """The ids of the parameters that stack those of the models, `[N, ...]`."""
        return {id(at.__dict__[kind][leaf]) for (at, kind, leaf), shared in zip(self._places, self._shared)
                if not shared and kind == "_parameters" and leaf in at.__dict__[kind]}

    def _held_once(self):
        """The parameters without a dimension for models: those that all models share, and those that were added to this module,
        unless in another wide module of as many models."""
        stacked = set().union(*(m._stacked() for m in self.modules() if isinstance(m, WideModule) and m.n == self.n))
        return [p for p in self.parameters() if id(p) not in stacked]

    # ------------------------------------------------------------------ calls

    def forward(self, *args, **kwargs):
        return self._call(args, kwargs, self._current, self._take)[0]

    def __prepare_scriptable__(self):
        refuse("torch.jit.script")

    def _current(self):
        if not self._frozen:
            return self._weights()
        self._values()
        return ()

    def _values(self):
        """The weights to compute with: the current ones, or those at the time of `freeze()`."""
        weights = self._weights()
        if not self._frozen:
            return weights
        if self._fixed is None:
            with torch_threads(self._options.threads):
                self.__dict__.update(_fixed=[t.detach().clone() for t in weights], _fixed_of=weights)
        elif not all(map(operator.is_, weights, self._fixed_of)):
            odd = next(slot for slot, a, b in zip(self._slots, weights, self._fixed_of) if a is not b)
            fail("wide", odd.name, "another tensor than at freeze()", "the one that is frozen",
                 "freeze() again, or freeze(False) for calls with other weights, as by torch.func.functional_call")
        return self._fixed

    def _call(self, args, kwargs, weights, take):
        """Runs a call with the tensors that `weights()` returns; `take` receives the ones that it changes. Returns
        the results and the program's recorder."""
        if torch.compiler.is_dynamo_compiling():
            return self._unseen(self, args, kwargs, weights, take)
        refuse_traces((args, kwargs))
        # Fast path: one tensor in, same kind of call as the last one.
        single = len(args) == 1 and not kwargs and isinstance(args[0], torch.Tensor)
        quick = self._quick
        if single and quick is not None and not torch.is_autocast_enabled(quick[3]) and quick[2] is torch.get_default_dtype():
            (core, recorder, *_), tensors, dims = quick, args, (0,)
        else:
            form = Form((args, kwargs))
            dims = self._dims(form)
            tensors = [moved(t, d, 0) if d else t for t, d in zip(form.tensors, dims)] if any(dims) else form.tensors
            core, recorder = self._core(form, dims)
            kind = recorder.device.type
            quick = single and dims == (0,) and not torch.is_autocast_enabled(kind)
            self.__dict__["_quick"] = (core, recorder, torch.get_default_dtype(), kind) if quick else None
        self.__dict__.update(_latest=core, _recorder=recorder)
        recorder.user = self._own_name
        if recorder.captured and torch.is_grad_enabled() and (recorder.needy and not self._frozen or any(
                t.requires_grad for t in (*tensors, *(() if self._frozen else self._weights())))):
            refuse_cut_off(recorder, tensors, dims)
        try:
            with self._turn:  # the next call needs the buffers that this call updates
                given = weights()
                if recorder.order is not None:
                    recorder.order.refuse_gradients((*tensors, *given))
                    recorder.order.join()
                outputs, changed = core.run(tensors, given)
                take(changed)
        except Exception as error:
            raise placed(error, recorder) from error
        if recorder.recorded:
            try:
                refuse_held(recorder)
            except Error:
                self._forget()  # the next call records, and is refused, again
                raise
        return recorder.form_of(tensors, dims, outputs).build(outputs), recorder

    def _take(self, changed):
        for k, value in changed:
            at, kind, leaf = self._places[k]
            at.__dict__[kind][leaf].data.copy_(value)
            if self._fixed is not None:
                self._fixed[k].copy_(value)

    def at(self, ids: Any, rows: bool = False) -> "Some | Routed":
        """Selects models by numbers known only at run time: `wide.at(ids)(x)`, `x` `[len(ids), ...]`. With `rows` the
        numbers belong to a batch's rows: `wide.at(ids, rows=True)(x)` sends row b of `x` `[B, ...]` to model `ids[b]`."""
        expect_cpu("at", "wide module", self._weights()[:1], "wide(x) with inputs of all models, or wide.cpu()")
        ids = numbers_of_models(ids, self.n)
        return Routed(self, ids) if rows else Some(self, ids)

    def _of_some(self, k):
        """A wide module for k models, to be called with weights given by the caller."""
        with KEEPING:
            made = self._some.get(k)
        if made is None:
            weights = [w.detach() if shared else w.detach()[:1].expand(k, *w.shape[1:]).clone()
                       for w, shared in zip(self._weights(), self._shared)]
            made = WideModule(self._model, self._slots, weights, list(self._shared), self._one_for_all, k, self._in_dims,
                              self._options)
            made.__dict__.update(_strict=self._strict, _hooked=self._hooked, _tied=self._tied, _dropping=self._dropping)
            with KEEPING:
                made = self._some.setdefault(k, made)
        made._modes_changed(False)
        return made

    def _prepare(self, form, dims):
        """Compiles a program for this kind of call of all models."""
        core, recorder = self._core(form, dims)
        self.__dict__.update(_latest=core, _recorder=recorder)
        try:
            with Progress(f"compiling {self}"):
                if recorder.order is not None:
                    recorder.order.join()
                core.prepare([moved(t, d, 0) if d else t for t, d in zip(form.tensors, dims)])
        except Exception as error:
            raise placed(error, recorder) from error
        return core, recorder

    def _dims(self, form):
        return dims_of(form, self._in_dims)

    def _core(self, form, dims):
        """The compiled program for a kind of call: its form, the submodules' modes, autocast, the default dtype."""
        if self._modes is None:
            self.__dict__["_modes"] = modes(self._model)
        key = form.key(), dims, self._modes, autocast_of(form.tensors or self._weights()), torch.get_default_dtype()
        found = self._kept(key)
        if found is None:
            with COMPILING:
                found = self._kept(key)
                if found is None:
                    with torch_threads(self._options.threads):
                        found = self._compiled(form, dims)
                    found[1].key = form.key()  # arguments may have changed when forward used them first
                    self._keep((found[1].key, *key[1:]), found)
        found[1].arguments = form.bare()  # what became of earlier calls' objects is none of this one's
        return found

    def _kept(self, key):
        """The compiled program for a kind of call, marked as most recently used; None if there is none."""
        with KEEPING:
            found = self._cores.get(key)
            if found is not None:
                self._cores.move_to_end(key)
            return found

    def _keep(self, key, made):
        with KEEPING:
            while len(self._cores) >= MOST_FORMS:
                self._cores.popitem(last=False)
            self._cores[key] = made

    def _compiled(self, form, dims):
        names = argument_names(self._model, form)
        for name, t, d in zip(names, form.tensors, dims):
            check_values("run", f"input {name}", t)
            if d is not None and (t.dim() == 0 or moved(t, d, 0).shape[0] != self.n):
                fail("run", f"input {name}", tuple(t.shape), f"{self.n} models in dimension {d}", "nw.pack")
        weights = self._weights()
        device = device_of([*zip([slot.name for slot in self._slots], weights), *zip([f"input {name}" for name in names], form.tensors)])
        one = Form(form.build([t if d is None else t.select(d, 0) for t, d in zip(form.tensors, dims)]))
        exporting, updates, outside = look(self._model, self._slots, one, self._modes == self._dropping)
        self._make_own(updates)
        recorder = Recorder(self._model, form, exporting, self._hooked)
        recorder.device, recorder.order = device, Order(device) if device.type == "cuda" else None
        recorder.needy = [t for slot, w in zip(self._slots, weights) if slot.kind != "parameter" and not w.requires_grad
                          and (t := slot.of(self._model)).requires_grad]
        recorder.captured = [*outside, *recorder.needy]
        options = self._options._core(
            frozen=self._frozen, input_names=recorder.names,
            shared_inputs={name for name, d in zip(recorder.names, dims) if d is None})
        options.strict = self._strict
        parameters, others = named(self._model, self._slots)
        model, slots = self._model, self._slots
        core = _core.Core(recorder, lambda tensors: separate(model, slots, recorder.arguments, tensors), parameters, others,
                          [t.detach() for t in self._values()], list(self._shared), self.n, options)
        return core, recorder

    def _make_own(self, names):
        """Gives every model its own copy of the shared tensors that forward writes to."""
        for k, (slot, (at, kind, leaf)) in enumerate(zip(self._slots, self._places)):
            if slot.name in names and slot.name in self._tied:
                fail("forward", f"{slot.kind} {slot.name}", "a change of one tensor that some models hold", "one for each model",
                     "copy.deepcopy of every model")
            if slot.name not in names or not self._shared[k]:
                continue
            if self._one_for_all[k]:
                fail("forward", f"{slot.kind} {slot.name}", "a change of one tensor that all models hold",
                     "one for each model", "copy.deepcopy of the model")
            kept = at.__dict__[kind]
            kept[leaf] = kept[leaf].expand(self.n, *kept[leaf].shape).clone()
            self._shared[k] = False
            self._forget()

    def _last(self):
        if self._latest is None:
            fail("wide", "program", "no call yet", "one", "a sample, or a call")
        return self._latest

    def _with_own_weights(self):
        """The program of the last call, with this module's weights set again: a copy of the module may have used it since."""
        core = self._last()
        if self._recorder.user not in (None, self._own_name):
            fail("wide", "weights", "those of a copy that was called since", "this module's own", "a call of this one first")
        return core

    # ------------------------------------------------------------------ what there is to know

    @property
    def coverage(self) -> Coverage:
        """How every operator was made wide: by a strategy, by vmap, once for all models, or per model with the reason."""
        return Coverage(self._last().coverage())

    def explain(self) -> Steps:
        """The steps of the wide program with the time of each."""
        return Steps(self._last().explain())

    def plan(self) -> str:
        """The lowering's plan as text; after a backward pass also those of the two passes with gradients."""
        return self._last().plan()

    def program(self) -> str:
        """The wide program after all passes, as text."""
        return self._last().program()

    def validate(self, rtol: float = 0.0) -> Validation:
        """Compares with N separate models in float64: values, isolation and order of the models. Also says which start
        equal, and which parameters they share."""
        check_number("validate", "rtol", rtol)
        held_once = tuple(slot.name for slot, shared in zip(self._slots, self._shared) if shared and slot.kind == "parameter")
        return Validation(**self._with_own_weights().validate(rtol), equal=self._equal(), held_once=held_once)

    def _equal(self):
        """Models whose parameters are all equal, in groups."""
        groups = {}
        own = [w.detach() for w, slot, shared in zip(self._weights(), self._slots, self._shared)
               if slot.kind == "parameter" and not shared]
        for i in range(self.n if own else 0):
            groups.setdefault(tuple(float(w[i].double().sum()) for w in own), []).append(i)
        found = []
        for alike in groups.values():  # sums may be equal by chance
            while len(alike) > 1:
                same = [i for i in alike if all(torch.equal(w[i], w[alike[0]]) for w in own)]
                if len(same) > 1:
                    found.append(tuple(same))
                alike = [i for i in alike if i not in same]
        return tuple(sorted(found))

    def benchmark(self, *args: Any, budget_s: float = 1.5, seed: int = 0, compiled: bool = False, **kwargs: Any) -> Benchmark:
        """Times the wide call, its weights frozen as by `freeze()`, beside `loop` and `threads` of the
        separate modules and torch.vmap over them; with `compiled` also beside torch.compile of one module,
        called N times, and of the vmap. `budget_s` seconds for each; results are checked before and after."""
        check_number("benchmark", "budget_s", budget_s)
        form = Form((args, kwargs))
        dims = self._dims(form)
        core, recorder = self._prepare(form, dims)

        def way(make, compiled):
            return lambda tensors, shared: make(self._model, self._slots, recorder, tensors, shared, compiled)

        baselines = [("vmap", way(batched, False))]
        if compiled:
            baselines += [("torch.compile", way(looped, True)), ("torch.compile vmap", way(batched, True))]
        with Progress("preparing") as progress:
            return Benchmark(json.loads(core.benchmark(budget_s, seed, baselines, progress)))

    def export(self, path: str | os.PathLike[str]) -> None:
        """Writes the wide program with its weights in PyTorch's own operators: `.pt2` or `.ts`."""
        expect_cpu("export", "wide module", self._weights(), "wide.cpu().export(path)")
        self._with_own_weights().export(str(path))

    # ------------------------------------------------------------------ state

    def freeze(self, on: bool = True) -> "WideModule":
        """Fixes the weights: they are packed and folded once instead of in every call. Later changes to
        them take effect at the next `freeze()`, `load_state_dict`, `to` or `train`."""
        self.__dict__["_frozen"] = on
        self._forget()
        self._values()
        return self

    def _forget(self):
        with KEEPING:
            self._cores.clear()
            self._some.clear()
        self.__dict__.update(_quick=None, _latest=None, _fixed=None, _fixed_of=None)

    def apply(self, fn: Callable[[nn.Module], None]) -> "WideModule":
        """As nn.Module.apply for each of the N models, made anew: `fn` gets their submodules and may change tensors' values."""
        models = [self[i].module() for i in range(self.n)]
        for i, model in enumerate(models):
            before = self[i].module()
            model.apply(fn)
            try:
                check_like(before, model, i)
                same = [p.requires_grad for p in before.parameters()] == [p.requires_grad for p in model.parameters()]
            except Error:
                same = False
            if not same:
                fail("apply", f"model {i}", "a function that changes more than values of tensors", "one that changes these alone",
                     "applying it to the modules before nw.compile")
        for i, model in enumerate(models):
            self[i]._load(state_of(model))
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """As nn.Module's: the stacked tensors by the names of one model."""
        self._expect_plain_state()
        return super().state_dict(*args, **kwargs)

    def _expect_plain_state(self, loading=False):
        """Raises Error unless the models save, or load, their tensors as they are. The check runs code of the models on copies
        of one, so that it is not made again for the same one."""
        if loading not in self._plain_state:
            refuse_own_state(self._model, loading)
            self._plain_state.add(loading)

    def _load_from_state_dict(self, *args, **kwargs):
        self._expect_plain_state(loading=True)
        super()._load_from_state_dict(*args, **kwargs)

    def _apply(self, fn, recurse=True):
        swaps = torch.__future__.get_swap_module_params_on_conversion()
        try:
            super()._apply(fn, recurse)
            torch.__future__.set_swap_module_params_on_conversion(False)  # programs hold the model's own tensors
            self._model._apply(fn)
        except RuntimeError as error:
            self._take_dtypes()  # as far as the conversion came
            if not swaps:
                raise
            fail("wide", "conversion", one_line(error), "weights that no graph holds, as they are swapped",
                 "torch.__future__.set_swap_module_params_on_conversion(False)")
        finally:
            torch.__future__.set_swap_module_params_on_conversion(swaps)
            self._plain_state.clear()
            self._forget()
        return self

    def _loaded(self, _):
        """After `load_state_dict` of this module or of one that it is in."""
        self._check_rows_again()
        self._forget() if self._frozen else None
        for other, name in aliases_of(self._model, self._slots).items():
            self._tie(other, name)  # assign=True gives each name a tensor of its own
        self._take_dtypes()

    def _take_dtypes(self):
        """After `assign=True`: gives the model that is recorded the dtypes of the assigned weights."""
        if all(slot.of(self._model).dtype == w.dtype for slot, w in zip(self._slots, self._weights())):
            return
        self.__dict__["_model"] = copy.deepcopy(self._model)  # copies of this module share the old one
        for slot, weight in zip(self._slots, self._weights()):
            own = slot.of(self._model)
            own.data = own.data.to(weight.dtype)
        self._plain_state.clear()
        self._forget()

    def __getstate__(self):
        state = self.__dict__.copy()
        # Compiled programs are not copied; they are made again when needed.
        state.update(_cores=OrderedDict(), _some={}, _quick=None, _latest=None, _recorder=None, _fixed_of=None)
        state["_places"] = state["_turn"] = state["_own_name"] = state["_rows_checked"] = None
        return state

    def __deepcopy__(self, memo):
        other = memo[id(self)] = type(self).__new__(type(self))
        other.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        if not self._frozen:  # compiled programs hold no weights, so both modules can use them
            with KEEPING:
                other._cores.update(self._cores)
        return other

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.update(_turn=threading.Lock(), _own_name=object(), _rows_checked=weakref.WeakKeyDictionary(), _plain_state=set())
        LIVE.add(self)
        self._find_places()
        if self._fixed is not None:
            self.__dict__["_fixed_of"] = self._weights()

    def __dir__(self):
        """Leaves out `coverage` before the first call: torch.jit.trace reads every attribute listed."""
        return [name for name in super().__dir__() if name != "coverage" or self._latest is not None]

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> One:
        """Model i, with `state_dict()`, `load_state_dict()` and `module()`."""
        try:
            i = operator.index(i)
        except TypeError:
            fail("wide", "model", f"{i!r}", "the number of one model", "wide[0], or a list of such")
        if not -self.n <= i < self.n:
            raise IndexError(f"[wide] model: got {i}, expected {-self.n} to {self.n - 1}; try 0")
        return One(self, i % self.n)

    def _one_model(self):
        return copy.deepcopy(self._model)

    def copy_to(self, models: Iterable[nn.Module]) -> None:
        """Writes every model's weights into modules of its architecture."""
        models = list(models)
        if len(models) != self.n:
            fail("copy_to", "models", len(models), self.n, "one for each")
        put([pair for i, model in enumerate(models) for pair in self[i]._pairs(model)])

    def __repr__(self):
        return f"WideModule({self.n} x {type(self._model).__name__})"


class CacheInfo(NamedTuple):
    """Counts of the compiled programs kept for all live wide modules."""

    modules: int
    programs: int  # one for each input size and mode; those for gradients count separately
    bytes: int  # their working memory and packed weights
    compiled: int  # programs compiled so far, evicted ones included


def cache_info() -> CacheInfo:
    """CacheInfo for the process. At most 32 kinds of calls with `Options.signatures` sizes each are kept (LRU)."""
    live = list(LIVE)
    with KEEPING:
        cores = {id(core): core for wide in live for core, _ in wide._cores.values()}
    kept = [core.kept() for core in cores.values()]
    return CacheInfo(len(live), *(sum(column) for column in zip(*kept)) if kept else (0, 0, 0))
