"""Compares the code of two classes: a notebook cell that runs twice defines its class twice."""

import dis
import functools
import types
import weakref

import torch

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
    names = vars(cls).get("__slots__", ())
    return [n for n in ([names] if isinstance(names, str) else names) if n not in ("__dict__", "__weakref__")]


def _globals_read(code):
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _globals_read(constant)
    return names
