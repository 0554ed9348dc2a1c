"""Wide layers: N of the user's layers or blocks as one module, computed by a strategy chosen by name."""

import copy
import dataclasses
import difflib
import inspect
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import nn

from . import _core
from .architecture import kind
from .compiling import assemble
from .errors import Error, fail
from .module import WideModule
from .options import Options
from .recording import Form, argument_names, placed, untouched_randomness


@dataclasses.dataclass(frozen=True)
class Target:
    """A registered primitive or block, as `workbench list NAME` describes it."""

    name: str
    kind: str  # "primitive" or "block"
    summary: str
    formula: str
    source: str
    strategies: list[str]  # of this target alone
    forced: dict[str, dict[str, str]]  # by strategy: the strategies that it forces, by primitive

    @property
    def layer(self) -> type[nn.Module] | None:
        """The target's class in torch.nn, or None."""
        return getattr(nn, self.source.removeprefix("torch.nn."), None) if self.source.startswith("torch.nn.") else None


TARGETS = {row["name"]: Target(**row) for row in _core.targets() if row["kind"] != "model"}
FOR_ALL = ("vmap", "per_model")  # strategies that every operator has


def targets_of(module: nn.Module, *, exact: bool = False) -> list[str]:
    """Names of the targets for the module's torch.nn class, or for its nearest base class that has some."""
    for cls in (kind(module).__mro__[:1] if exact else kind(module).__mro__):
        names = [t.name for t in TARGETS.values() if t.layer is cls]
        if names:
            return names
    return []


class WideLayer(WideModule):
    """N layers or blocks of one architecture by one strategy: `[N, B, ...]` in and out. Made by `from_modules`."""

    target = ""  # name of the primitive or block; "" if the class is neither
    strategy = "auto"  # as asked for; auto: the engine chooses for each operator

    @classmethod
    def from_modules(cls, modules: Sequence[nn.Module], strategy: str | None = None, *,
                     options: Options | None = None) -> Self:
        """Makes one wide layer of N modules. Raises Error with the reason if the strategy does not apply to them, at the first
        call at the latest."""
        return made(cls, cls.__name__, modules, cls.target, strategy, options)

    @classmethod
    def _as_called(cls, module):
        """A module with the same tensors and the calling convention of the wide one."""
        return module

    def forward(self, *args, **kwargs):
        if "rope" in kwargs and not self._takes_rope:
            fail(type(self).__name__, "rope", "one", f"none, since forward of {self._class()} has no argument rope",
                 "modules whose forward takes rope=None")
        try:
            return super().forward(*args, **kwargs)
        except Error as error:
            if str(error).startswith(("[run] input", "[forward]")):  # not an error of strategies
                self._refuse_packed(args, kwargs)
            raise

    def _class(self):
        return kind(self._model).__name__

    def _dims(self, form):
        dims = super()._dims(form)
        if not self._takes_rope or len(dims) < 2:
            return dims
        names = argument_names(self._model, form)
        return tuple(self._rope_dim(t) if is_rope(name) else d for name, t, d in zip(names, form.tensors, dims))

    def _rope_dim(self, rope):
        """Positions `[...]` are shared by all models; `[N, ...]` are each model's own."""
        if rope.dim() == 2:
            return None
        if rope.dim() != 3 or rope.shape[0] != self.n:
            fail(type(self).__name__, "rope", tuple(rope.shape),
                 f"[T, head_dim] for all models, or [{self.n}, T, head_dim]", "rope[0]")
        return 0

    def _compiled(self, form, dims):
        core, recorder = super()._compiled(form, dims)
        if self._asked and not targets_of(self._model, exact=True):
            try:
                core.prepare(form.tensors)
            except Exception as error:
                raise placed(error, recorder) from error
            self._check_asked(core.coverage())
        return core, recorder

    def _check_asked(self, coverage):
        """Raises Error if no operator uses the requested strategy."""
        if any(self._asked.get(row["primitive"]) == row["strategy"] for row in coverage):
            return
        found = ", ".join(sorted({row["primitive"] for row in coverage} - {""})) or "no primitive"
        fail(type(self).__name__, "modules", f"{self._class()}, whose operators are of {found}",
             f"some of {' or '.join(self._asked)}, which has strategy {self.strategy}", "strategy='auto'")

    def _refuse_packed(self, args, kwargs):
        """Raises a clear Error if a call failed because inputs are packed, `[B, T, N*D]` or `[B, N*C, H, W]`."""
        form = Form((args, kwargs))
        names = argument_names(self._model, form)
        rank = max((t.dim() for t in form.tensors), default=0)
        for dim in ((1, rank - 1) if rank > 3 else (rank - 1, 1)):
            first = self._first_of_packed(form, names, dim)
            if first is None:
                continue
            name, t = first
            fail(type(self).__name__, f"input {name}",
                 f"{tuple(t.shape)}, whose dimension {dim} holds {self.n} models side by side", f"[{self.n}, B, ...]",
                 f"nw.pack({name}.chunk({self.n}, {dim})), and nw.unpack of the result")

    def _first_of_packed(self, form, names, dim):
        """One model's slice of inputs packed along `dim`, if the model accepts it, else None."""
        own, first = [], None
        for name, t in zip(names, form.tensors):
            if not is_rope(name):
                at = min(dim, t.dim() - 1)
                if self.n == 1 or at < 1 or t.shape[at] % self.n:
                    return None
                first = first or (name, t)
                t = t.chunk(self.n, at)[0]
            own.append(t)
        args, kwargs = form.call(own)
        try:
            with torch.no_grad(), untouched_randomness(0, [*own, *self._model.parameters()]):
                copy.deepcopy(self._model)(*args, **kwargs)
        except Exception:
            return None
        return first

    def __repr__(self):
        one = repr(self._model)
        return (f"{type(self).__name__}({self.n} x {self._class() if chr(10) in one else one}"
                f"{f', target={self.target}' if self.target else ''}, strategy={self.strategy})")


def is_rope(name):
    return name == "rope" or name.startswith("rope.")


def from_modules(modules: Sequence[nn.Module], strategy: str | None = None, *, target: str | None = None,
                 options: Options | None = None) -> WideLayer:
    """Makes one wide module of N layers or blocks, using a strategy from `workbench list`; with None or "auto" the
    engine chooses. `target`: the primitive or block that they implement, if their class is not torch.nn's."""
    if target is not None and target not in TARGETS:
        near = difflib.get_close_matches(str(target), TARGETS, 1)
        fail("from_modules", "target", target, "the name of a primitive or block",
             f"target='{near[0]}'" if near else "`workbench list primitives`")
    return made(WideLayer, "from_modules", modules, target, strategy, options)


def made(cls: type[WideLayer], thing: str, modules: Any, target: str | None, strategy: str | None,
         options: Options | None) -> Any:
    """The wide layer, of class `cls`; errors name `thing`."""
    modules = list(modules) if isinstance(modules, (list, tuple, nn.ModuleList)) else modules
    if not isinstance(modules, list) or not modules or not all(isinstance(m, nn.Module) for m in modules):
        got = type(modules).__name__ if not isinstance(modules, list) else next(
            (type(m).__name__ for m in modules if not isinstance(m, nn.Module)), "none")
        fail(thing, "modules", got, "a list of at least one nn.Module", "[module]")
    first = modules[0]
    own = targets_of(first, exact=True)
    if target and own and target not in own:
        layer = TARGETS[target].layer
        fail(thing, "modules", kind(first).__name__,
             f"torch.nn.{layer.__name__}" if layer else f"{target}: {TARGETS[target].summary}",
             f"nw.from_modules, where it is {own[0]}")
    target = target or next(iter(targets_of(first)), "")
    asked = forced(thing, first, target, strategy)
    options = Options() if options is None else options
    if isinstance(options, Options):
        options = dataclasses.replace(options, strategies={**options.strategies, **asked})
    wide, _ = assemble(cls, [cls._as_called(m) for m in modules], None, 0, options)
    arguments = inspect.signature(wide._model.forward).parameters
    takes_rope = "rope" in arguments or any(a.kind is a.VAR_KEYWORD for a in arguments.values())
    wide.__dict__.update(target=target, strategy=strategy or "auto", _strict=bool(asked),
                         _asked={} if "*" in asked else asked, _takes_rope=takes_rope)
    return wide


def forced(thing: str, module: nn.Module, target: str, strategy: str | None) -> dict[str, str]:
    """The strategies that a target's strategy forces, by primitive."""
    if strategy in (None, "auto"):
        return {}
    if strategy in FOR_ALL:
        return {"*": strategy}
    known = TARGETS[target].forced if target else {}
    if strategy in known:
        return known[strategy]
    names = ["auto", *(TARGETS[target].strategies if target else []), *FOR_ALL]
    if target:
        fail(thing, f"strategy of {target}", strategy, f"one of {', '.join(names)}", f"strategy='{names[1]}'")
    having = [t.name for t in sorted(TARGETS.values(), key=lambda t: (t.kind, t.name)) if strategy in t.forced]
    fail(thing, f"strategy of {kind(module).__name__}", strategy, f"one of {', '.join(names)}, as its class is no target by itself",
         f"target='{having[0]}'" if having else "strategy='auto'")
