"""N models of one architecture computed at once, from Python.

    import torch, nwide as nw
    wide = nw.compile(models, sample)   # a list of nn.Module, or compile(model, sample, n=8)
    y = wide(x)                         # [N, B, ...]
"""

import torch

TORCH = "2.11"
if not torch.__version__.startswith(TORCH + "."):
    raise ImportError(f"[nwide] torch: got {torch.__version__}, expected {TORCH}; try pip install torch=={TORCH}.0")

from . import mixing, optim  # noqa: E402, F401
from .compiling import compile  # noqa: E402
from .constant import constant  # noqa: E402
from .errors import Error  # noqa: E402
from .layers import WideLayer, from_modules  # noqa: E402
from .losses import clip_grad_norm_, per_model  # noqa: E402
from .module import WideModule, cache_info  # noqa: E402
from .options import Options  # noqa: E402
from .packing import pack, unpack  # noqa: E402
from .store import open  # noqa: E402
from .training import Run, lin, log, loguniform, open_run, train, uniform, zip  # noqa: E402

__all__ = ["Error", "Options", "Run", "WideLayer", "WideModule", "cache_info", "clip_grad_norm_", "compile", "constant",
           "from_modules", "lin", "log", "loguniform", "open", "open_run", "optim", "pack", "per_model", "train", "uniform", "unpack", "zip"]
