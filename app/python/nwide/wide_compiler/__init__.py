"""WideCompiler's entry points on top of nwide: `import nwide.wide_compiler as wide_compiler`.

Differences from WideCompiler are listed in app/python/wide_compiler.md.
"""

import copy

from ..compiling import compile as _compile
from ..errors import fail
from ..options import Options
from ..packing import pack, unpack

__all__ = ["WideBuilder", "WideConfig", "compile", "pack", "unpack"]


class WideConfig:
    """How models are compiled, by WideCompiler's names. Without `compile` the wide program runs operator by
    operator through PyTorch (mode eager); with it in `compile_mode`."""

    def __init__(self, compile=False, compile_mode="default", validate=False, validate_rtol=1e-3, debug=False):
        self.options = Options(mode=compile_mode, validate=validate, rtol=validate_rtol if validate else 0.0,
                               verbose=debug, verify=debug)
        if not compile:
            self.options.mode = "eager"  # WideCompiler's own meaning, so no note about it

    @classmethod
    def default(cls):
        return cls()

    @classmethod
    def fast(cls):
        return cls(compile=True)

    @classmethod
    def debug(cls):
        return cls(debug=True)

    @classmethod
    def safe(cls):
        return cls(validate=True)


def compile(models, sample_input, n=None, *, compile_model=False, validate=False, config=None):
    """One wide module of a list of models, or of `n` freshly drawn copies of one."""
    if not isinstance(models, (list, tuple)):
        if n is None:
            fail("compile", "n", "none", "how many models", "n=8, or a list of models")
        models = [_redrawn(models) for _ in range(n)]
    beside = [name for name, given in (("compile_model", compile_model), ("validate", validate)) if given]
    if config is not None and beside:
        fail("compile", beside[0], "it beside config, which says it too", "one of the two",
             "config=WideConfig(compile=..., validate=...)")
    options = (config or WideConfig(compile=compile_model, validate=validate)).options
    return _compile(models, sample_input, options=options)


def _redrawn(model):
    """A copy whose layers drew their parameters anew."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return model


class WideBuilder:
    """`WideBuilder(models).with_sample(x).validate().compile(mode="default").build()`."""

    def __init__(self, models, n=None):
        self._models, self._n, self._sample, self._wanted = models, n, None, {}

    def with_sample(self, sample):
        self._sample = sample
        return self

    def validate(self, rtol=1e-3):
        self._wanted.update(validate=True, validate_rtol=rtol)
        return self

    def compile(self, mode="default"):
        self._wanted.update(compile=True, compile_mode=mode)
        return self

    def build(self):
        return compile(self._models, self._sample, self._n, config=WideConfig(**self._wanted))
