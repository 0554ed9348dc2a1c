"""Training N models as one, by the program `workbench train`."""

from .result import Models, Run, Selection, open_run
from .trainings import train
from .values import Range, lin, log, loguniform, uniform, zip

__all__ = ["Models", "Range", "Run", "Selection", "lin", "log", "loguniform", "open_run", "train", "uniform", "zip"]
