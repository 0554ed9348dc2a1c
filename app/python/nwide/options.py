"""How models are compiled: `nw.Options.safe()`, or fields one by one."""

import dataclasses

from . import _core
from .errors import fail


@dataclasses.dataclass
class Options:
    """Start from a preset, then change what is to be changed: `dataclasses.replace(o, threads=2)`."""

    mode: str | None = "eager"  # None: the quickest this machine has
    threads: int = 0  # 0: as many as PyTorch uses
    tune: bool = True  # measure what is fastest; False: guess
    strategies: dict[str, str] = dataclasses.field(default_factory=dict)  # primitive to strategy
    passes_off: set[str] = dataclasses.field(default_factory=set)
    verify: bool = False  # the program after every pass
    verbose: bool = False  # say what was done, on stderr
    validate: bool = False  # against float64 after compiling; a wrong program is refused
    rtol: float = 0.0  # of that; 0: the dtype's own
    signatures: int = 8  # input sizes kept compiled, the oldest goes

    @classmethod
    def default_(cls):
        return cls()

    @classmethod
    def fast(cls):
        """The quickest mode, without a check; eager until one compiles."""
        return cls(mode=None)

    @classmethod
    def debug(cls):
        """Says what it does; the program is verified after every pass."""
        return cls(verify=True, verbose=True)

    @classmethod
    def safe(cls):
        """Validated against N separate float64 runs; a wrong program is refused."""
        return cls(validate=True)

    def _core(self, *, frozen, input_names, shared_inputs):
        core = _core.Options()
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            try:
                setattr(core, field.name, set(value) if field.name == "passes_off" else value)
            except TypeError:
                fail("options", field.name, repr(value), field.type, f"Options().{field.name}")
        core.frozen, core.input_names, core.shared_inputs = frozen, input_names, shared_inputs
        return core
