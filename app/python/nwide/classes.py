"""Compares classes by their code (a notebook cell that runs twice defines its class twice), and values by what they hold."""

import array
import collections
import collections.abc
import contextvars
import dis
import enum
import functools
import logging
import operator
import sys
import threading
import types
import weakref
import zoneinfo

import torch

from .constant import Constant
from .errors import fail

# Attributes that say where and when a class was made, not what it does.
INCIDENTAL = {"__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__firstlineno__", "__annotations__",
              "__static_attributes__", "_abc_impl", "__signature__"}


def difference(one, other):
    """The attribute in which two classes differ, such as "forward"; "" if name, bases and code are equal."""
    return Comparison().classes(one, other)


def place(cls, what=""):
    """The `file:line` of a class's method, or of its first method; "" if unknown."""
    own = vars(cls)
    for value in [own.get(what), *own.values()]:
        code = getattr(_function(value), "__code__", None)
        if code is not None:
            return f"{code.co_filename}:{code.co_firstlineno}"
    return ""


def _function(value):
    if isinstance(value, property):
        return value.fget
    return getattr(value, "__func__", value)


class Comparison:
    """Compares functions, classes and objects by what they do and hold, not by where they were defined."""

    def __init__(self):
        self.assumed = {}  # pairs compared so far or now, since classes and functions may refer to themselves

    def classes(self, one, other):
        if one is other or self._seen(one, other):
            return ""
        if one.__name__ != other.__name__:
            return "name"
        if len(one.__bases__) != len(other.__bases__):
            return "bases"
        for mine, its in zip(one.__bases__, other.__bases__):
            if mine is not its and (not self._made_by_users(mine) or self.classes(mine, its)):
                return f"base {its.__name__}"
        mine, its = ({k: v for k, v in vars(c).items() if k not in INCIDENTAL} for c in (one, other))
        for name in sorted(mine.keys() | its.keys()):
            if name not in mine or name not in its or not self.same(mine[name], its[name]):
                return name
        return ""

    def same(self, a, b):
        if a is b:
            return True
        if isinstance(a, type) and isinstance(b, type):
            return not self.classes(a, b)
        if type(a) is not type(b) and self.classes(type(a), type(b)):
            return False
        if isinstance(a, types.FunctionType):
            return self._seen(a, b) or self._functions(a, b)
        if isinstance(a, weakref.ref):
            return self.same(a(), b())
        if isinstance(a, types.CodeType):
            return self._codes(a, b)
        if isinstance(a, torch.Tensor):
            return a.dtype == b.dtype and a.shape == b.shape and bool(torch.equal(a, b))
        if isinstance(a, (tuple, list)):
            return len(a) == len(b) and all(map(self.same, a, b))
        if isinstance(a, (dict, types.MappingProxyType)):
            return self._seen(a, b) or (list(a) == list(b) and all(self.same(a[k], b[k]) for k in a))
        if isinstance(a, property):
            return all(self.same(getattr(a, f), getattr(b, f)) for f in ("fget", "fset", "fdel"))
        if isinstance(a, types.CellType):
            return self._seen(a, b) or self.same(_contents(a), _contents(b))
        if isinstance(a, (staticmethod, classmethod)):
            return self.same(a.__func__, b.__func__)
        if isinstance(a, types.MethodType):
            return self.same(a.__func__, b.__func__) and self.same(a.__self__, b.__self__)
        if isinstance(a, functools.partial):
            return all(self.same(getattr(a, f), getattr(b, f)) for f in ("func", "args", "keywords"))
        return self._seen(a, b) or self._objects(a, b)

    def _seen(self, a, b):
        """Whether the pair was compared before. Keeps both alive, so that no other object gets their id()."""
        key = id(a), id(b)
        if key in self.assumed:
            return True
        self.assumed[key] = a, b
        return False

    @staticmethod
    def _made_by_users(cls):
        return bool(cls.__flags__ & (1 << 9))  # a heap type: not implemented in C

    def _functions(self, a, b):
        if not (self.same(a.__code__, b.__code__) and self.same(a.__defaults__, b.__defaults__)
                and self.same(a.__kwdefaults__, b.__kwdefaults__) and self.same(a.__closure__, b.__closure__)
                and self.same(vars(a), vars(b))):
            return False
        if a.__globals__ is b.__globals__:
            return True
        missing = object()
        return all(self.same(a.__globals__.get(name, missing), b.__globals__.get(name, missing))
                   if name in a.__globals__ or name in b.__globals__ else True for name in _globals_read(a.__code__))

    def _codes(self, a, b):
        """Compares instructions and names, not files and lines."""
        names = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_kwonlyargcount",
                 "co_posonlyargcount", "co_flags")
        return all(getattr(a, name) == getattr(b, name) for name in names) and self.same(a.co_consts, b.co_consts)

    def _objects(self, a, b):
        """Compares objects by their attributes, or with == if they have none."""
        try:
            if bool(a == b):
                return True
        except Exception:
            pass  # comparison failed: attributes decide
        slots = [name for cls in type(a).__mro__ for name in _slots(cls)]
        if not hasattr(a, "__dict__") and not slots:
            return False
        missing = object()
        return all(self.same(getattr(a, s, missing), getattr(b, s, missing)) for s in slots) and self.same(
            getattr(a, "__dict__", {}), getattr(b, "__dict__", {}))


def _contents(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return None  # the closure's cell is still empty


def _slots(cls):
    """The names of a class's slots: Python puts the class's name in front of private ones."""
    names = vars(cls).get("__slots__", ())
    return [f"_{cls.__name__.lstrip('_')}{n}" if n.startswith("__") and not n.endswith("__") else n
            for n in ([names] if isinstance(names, str) else names) if n not in ("__dict__", "__weakref__")]


def _globals_read(code):
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _globals_read(constant)
    return names


# Types whose equal values are the same, but for 0.0 and -0.0.
_VALUES = frozenset({int, bool, str, bytes, type(None), type(...), range, torch.dtype, torch.device, torch.layout, torch.memory_format,
                     torch.Size})
_EMPTY = frozenset({dict, collections.OrderedDict, list, tuple, set})  # most of those of a module's hooks
_DATA = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)
_LIBRARIES = sys.stdlib_module_names | {"torch", "numpy"}  # whose classes keep their attributes
_THEMSELVES = (types.ModuleType, torch._ops.OpOverload, torch._ops.OpOverloadPacket)  # whatever they hold
# Which do not change what is computed.
_ALIKE = (type(threading.Lock()), type(threading.RLock()), threading.Condition, logging.Logger)
_MOST_PARTS, _DEEPEST = 10_000, 100
_OF_MODULES = frozenset(vars(torch.nn.Module())) - {"training"}  # attributes of every module, looked at by name
_HOOKS = operator.itemgetter("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs",
                             "_forward_hooks_always_called", "_backward_hooks", "_backward_pre_hooks")
_WEIGHTS = operator.itemgetter("_parameters", "_buffers")


def contents(value, objects=True):
    """A hashable key: two values with equal keys hold the same. `objects`: an object without an __eq__ of its own, a function
    and a class equal themselves alone. Raises Error for a value that holds what Python cannot look at."""
    kind = type(value)
    if kind in _VALUES:
        return kind, value
    if kind is float:
        return kind, repr(value)  # tells 0.0 from -0.0; NaN is itself
    made = _Contents(value, objects)
    return made.of(value, 0), _Kept(made.held) if objects else None


class _Itself:
    """Stands for an object that equals itself alone, and keeps it alive: a later one could have its id()."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, _Itself) and self.value is other.value

    def __hash__(self):
        return id(self.value)


class _Code:
    """Stands for a class, which equals those of the same code: forward may make its own in every call."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, _Code) and (self.value is other.value or self.value.__qualname__ == other.value.__qualname__
                                             and not difference(self.value, other.value))

    def __hash__(self):
        return hash(self.value.__qualname__)


class _Kept:
    """Keeps alive the objects that a key has by their id(). Equal to any other."""

    __slots__ = ("held",)

    def __init__(self, held):
        self.held = held

    def __eq__(self, other):
        return isinstance(other, _Kept)

    def __hash__(self):
        return 0


class _TooMuch(Exception):
    """An object holds more than a key can have."""


class _Contents:
    """Makes the key of one value."""

    def __init__(self, top, objects):
        self.top, self.objects = top, objects
        self.seen = {}  # numbers of the objects met so far, which may hold themselves, by id()
        self.kept = []  # keeps them alive, so that no other gets their id()
        self.held = []  # those that are in the key by their id()
        self.classes = set()  # whose attributes are in the key
        self.outer = None  # the object on the way here that is taken as itself if it holds too much
        self.simple = {}  # whether `_module` can take a class

    def of(self, value, depth):
        kind = type(value)
        if kind in _VALUES:
            return kind, value
        if kind is float or kind is complex:
            return kind, repr(value)
        if isinstance(value, Constant):
            return kind, value
        if isinstance(value, enum.Enum):
            return (kind, _Itself(value)) if self.objects else (_Code(kind), value.name, self.of(value.value, depth))
        if kind in _EMPTY and not value:
            return kind,
        if id(value) in self.seen:
            return "met", self.seen[id(value)]
        if depth > _DEEPEST or len(self.seen) > _MOST_PARTS:
            if self.outer is not None:
                raise _TooMuch
            return self._untold(value, f"more than {_MOST_PARTS} objects" if depth <= _DEEPEST else f"objects nested {_DEEPEST} deep")
        if self.objects and self.outer is None and kind.__eq__ is object.__eq__ and not isinstance(value, types.FunctionType):
            return self._outermost(kind, value, depth)
        return self._told(kind, value, depth)

    def _outermost(self, kind, value, depth):
        """An object without an __eq__ of its own in no other such object: past the limits it is itself alone."""
        seen, classes, self.outer = dict(self.seen), set(self.classes), value
        try:
            return self._told(kind, value, depth)
        except _TooMuch:
            self.seen, self.classes = seen, classes
            self.seen[id(value)] = len(seen)
            return kind, _Itself(value)
        finally:
            self.outer = None

    def _told(self, kind, value, depth):
        self.seen[id(value)] = len(self.seen)
        self.kept.append(value)
        return (kind if self.objects else _Code(kind), *self._parts(kind, value, depth + 1))

    def all(self, values, depth):
        return tuple([self.of(value, depth) for value in values])

    def pairs(self, items, depth):
        return tuple([(self.of(name, depth), self.of(value, depth)) for name, value in items])

    def _parts(self, kind, value, depth):
        numpy = sys.modules.get("numpy")
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, type):
            return (_Itself(value) if self.objects else _Code(value)), self._of_class(value, depth)
        if isinstance(value, _ALIKE):
            return ()
        if isinstance(value, _THEMSELVES) or kind.__module__.partition(".")[0] == __package__:
            return _Itself(value),
        if self.objects and isinstance(value, torch.nn.Module) and self._is_simple(kind) and "_modules" in vars(value):
            return self._module(value, depth)
        if self.objects and isinstance(value, torch.jit.ScriptModule):  # whose attributes are C++'s
            return _Itself(value), value.training, tuple([self._tensor(t) for t in (*value.parameters(), *value.buffers())])
        if isinstance(value, types.FunctionType):
            return (_Itself(value if self.objects else value.__code__), self.all((value.__defaults__, value.__kwdefaults__), depth),
                    self.all(map(_contents, value.__closure__ or ()), depth), self.of(vars(value), depth))
        if isinstance(value, types.MethodType):
            return self.all((value.__func__, value.__self__), depth)
        if isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):  # functions of C, methods such as [1, 2].index
            return value.__name__, self.of(value.__self__, depth)
        if isinstance(value, weakref.ref):
            return self.of(value(), depth),
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            held = self.all(value.ravel().tolist(), depth) if value.dtype.hasobject else value.tobytes()
            return value.shape, str(value.dtype), held, self.of(getattr(value, "__dict__", None), depth)
        if kind in _EMPTY:
            return self._object(kind, value, depth)
        if isinstance(value, (torch.finfo, torch.iinfo)):
            return repr(value),
        if isinstance(value, zoneinfo.ZoneInfo) and value.key is not None:
            return value.key,
        generators = (numpy.random.Generator, numpy.random.RandomState) if numpy is not None else ()
        if isinstance(value, (contextvars.ContextVar, torch.Generator, *generators)) and value is not self.top:
            return _Itself(value),
        return self._object(kind, value, depth)

    def _object(self, kind, value, depth):
        found = []
        if isinstance(value, functools.partial):
            found.append(self.all((value.func, value.args, value.keywords), depth))
        elif isinstance(value, (dict, types.MappingProxyType)):
            found.append(self.pairs(value.items(), depth))
            found += [self.of(value.default_factory, depth)] if isinstance(value, collections.defaultdict) else []
        elif isinstance(value, (list, tuple, collections.deque, collections.abc.KeysView, collections.abc.ValuesView)):
            found.append(self.all(value, depth))
        elif isinstance(value, (set, frozenset, collections.abc.ItemsView)):
            found.append(frozenset(self.all(value, depth)))
        elif isinstance(value, slice):
            found.append(self.all((value.start, value.stop, value.step), depth))
        elif isinstance(value, array.array):
            found.append((value.typecode, value.tobytes()))
        elif isinstance(value, (bytearray, memoryview)):
            found.append(bytes(value))
        else:
            found += [base.__repr__(value) for base in (int, float, complex, str, bytes) if isinstance(value, base)]
        slots = [name for cls in kind.__mro__ for name in _slots(cls)]
        found += [(name, self.of(getattr(value, name), depth)) for name in slots if hasattr(value, name)]
        if hasattr(value, "__dict__"):
            found.append(tuple([(name, self.of(own, depth)) for name, own in vars(value).items()]))
        opaque = not found and not slots  # an object implemented in C
        if self.objects and kind.__eq__ is object.__eq__:
            refused_later = value is self.top and isinstance(value, collections.abc.Iterator)
            if opaque and kind is not object and not callable(value) and not refused_later:
                return self._untold(value, f"a {kind.__name__}")
            found.append(_Itself(value))
        elif opaque and self.objects:
            if kind.__hash__ is None:
                return self._untold(value, f"a {kind.__name__}")
            found.append(value)  # one that is a value, such as a date
        found.append(self._of_class(kind, depth))
        return found

    def _tensor(self, value):
        """Programs hold tensors, whose elements they read in every call; a tensor without dimensions may be a number there."""
        form = value.shape, value.dtype, value.layout
        if not self.objects:
            return form
        self.held.append(value)
        if value.layout is not torch.strided or value.is_meta:
            return id(value), form, value.requires_grad
        return id(value), form, value.requires_grad, value.stride(), value.data_ptr(), "" if value.dim() else repr(value.item())

    def _is_simple(self, kind):
        """Whether a class of modules keeps what it has where nn.Module does, and equals itself alone."""
        known = self.simple.get(kind)
        if known is None:
            known = self.simple[kind] = (
                kind.__eq__ is object.__eq__ and kind.__module__.partition(".")[0] != __package__
                and not issubclass(kind, (torch.jit.ScriptModule, dict, list)) and not any(map(_slots, kind.__mro__)))
        return known

    def _module(self, top, depth):
        """A module and those in it, one after the other: each itself, its hooks, tensors and other attributes by name."""
        found, left = [], [top]
        for module in left:  # which grows on the way
            self.held.append(module)
            kind, state = type(module), vars(module)
            parts = [id(module), kind]
            if any(_HOOKS(state)):
                parts.append(self.all(_HOOKS(state), depth))
            for tensors in _WEIGHTS(state):
                for name, tensor in tensors.items():
                    parts.append((name, tensor if tensor is None else self._tensor(tensor)))
            for name, part in state["_modules"].items():
                if part is None or id(part) in self.seen or not self._is_simple(type(part)):
                    parts.append((name, part if part is None else self.of(part, depth)))
                else:
                    self.seen[id(part)] = len(self.seen)
                    left.append(part)
                    parts.append((name, id(part)))
            for name, own in state.items():
                if name not in _OF_MODULES:
                    own_kind = type(own)
                    parts.append((name, own_kind, own) if own_kind in _VALUES else (name, self.of(own, depth)))
            if kind not in self.classes:
                parts.append(self._of_class(kind, depth))
            found.append(tuple(parts))
        return found

    def _of_class(self, kind, depth):
        """The attributes of a class that are data, such as those of a class of settings."""
        found = []
        for cls in kind.__mro__:
            if cls in self.classes:
                continue
            self.classes.add(cls)
            if cls.__module__.partition(".")[0] not in _LIBRARIES:
                found += [(name, self.of(value, depth)) for name, value in vars(cls).items()
                          if isinstance(value, _DATA) and not name.startswith("__")]
        return tuple(found)

    def _untold(self, value, what):
        if not self.objects:
            return type(value),
        name = type(self.top).__name__
        fail("run", "argument", f"a {name} that holds {what}" if value is not self.top else f"a {name}",
             "what Python can look at, to tell this call from others", "numbers, text, functions and objects of these")
