"""A class for each block: `WideMLP.from_modules(mlps, strategy="fused")` takes N blocks as one."""

from .classes import classes

globals().update(classes("block", __name__))
__all__ = list(classes("block", __name__))
