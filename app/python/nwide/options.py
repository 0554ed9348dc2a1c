"""How models are compiled: `nw.Options.safe()`, or fields one by one."""

import dataclasses
import math
import numbers
import warnings

import torch

from . import _core
from .errors import fail

EAGER = ("nw.Options(mode='eager') runs PyTorch's operators one by one; what 'eager' meant before, a program that is "
         "planned ahead, is mode 'default'")
NO_GRAPHS = "mode reduce-overhead captures CUDA graphs; on the CPU mode default runs instead"
LEAST = {"threads": 0, "autotune_s": 0, "rtol": 0, "signatures": 1}  # that numbers have to be
told = set()  # notes already printed by this process


@dataclasses.dataclass
class Options:
    """How models are compiled. Start from a preset and change fields: `dataclasses.replace(o, threads=2)`."""

    # "default", "eager", "reduce-overhead" or "max-autotune", as app/python/reference.md tells them apart;
    # None: the quickest that starts at once
    mode: str | None = "default"
    threads: int = 0  # 0: PyTorch's number
    tune: bool = True  # measure what is fastest; False: guess
    autotune_s: float = 5.0  # mode "max-autotune": seconds of measuring beyond what "default" does
    strategies: dict[str, str] = dataclasses.field(default_factory=dict)  # forced strategies, by primitive
    passes_off: set[str] = dataclasses.field(default_factory=set)
    verify: bool = False  # verify the program after every pass
    verbose: bool = False  # print what was done on stderr
    validate: bool = False  # compare with float64 after compiling; raise Error if wrong
    rtol: float = 0.0  # relative tolerance of validate; 0: that of the dtype
    signatures: int = 8  # number of input sizes kept compiled (LRU)

    def __post_init__(self):
        if self.mode == "eager":
            _tell(EAGER)
        if self.mode == "reduce-overhead" and not torch.cuda.is_available():
            _tell(NO_GRAPHS)

    @classmethod
    def default_(cls):
        return cls()

    @classmethod
    def fast(cls):
        """Mode reduce-overhead on a CUDA device, default on the CPU; no validation."""
        return cls(mode=None)

    @classmethod
    def debug(cls):
        """Verbose; the program is verified after every pass."""
        return cls(verify=True, verbose=True)

    @classmethod
    def safe(cls):
        """Validates against N separate float64 runs; raises Error if the program is wrong."""
        return cls(validate=True)

    def _core(self, *, frozen, input_names, shared_inputs):
        core = _core.Options()
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in LEAST:
                check_number("options", field.name, value, LEAST[field.name])
            try:
                setattr(core, field.name, set(value) if field.name == "passes_off" else value)
            except TypeError:
                fail("options", field.name, repr(value), field.type, f"Options().{field.name}")
        core.frozen, core.input_names, core.shared_inputs = frozen, input_names, shared_inputs
        return core


def check_number(thing, what, value, least=0):
    """Raises Error for a number that is infinite, NaN or below `least`. What is no number is for others to refuse."""
    if isinstance(value, numbers.Real) and not (least <= value < math.inf):
        fail(thing, what, value, f"a finite number of at least {least}", f"{what}={least}")


def _tell(note):
    """Prints a warning, once per process."""
    if note not in told:
        told.add(note)
        warnings.warn(note, stacklevel=4)
