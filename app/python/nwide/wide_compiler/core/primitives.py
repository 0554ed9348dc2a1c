"""A class for each primitive: `WideRMSNorm.from_modules(norms, strategy="batched")` takes N layers as one."""

from .classes import classes

globals().update(classes("primitive", __name__))
__all__ = list(classes("primitive", __name__))
