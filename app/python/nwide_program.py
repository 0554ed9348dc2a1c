"""The command `workbench`: the program that lies in the package nwide takes the place of this process.

Neither torch nor nwide is imported, so that it starts at once and opens files from elsewhere in a process without threads.
"""

import importlib.util
import os
import re
import sys

TORCH = "2.11"


def main(arguments=None):
    home = os.path.dirname(os.path.abspath(__file__))
    program = os.path.join(home, "nwide", "workbench")
    if not os.path.exists(program):
        sys.exit(f"[workbench] program: got none in {os.path.dirname(program)}, expected that of nwide's wheel; "
                 "try pip install --force-reinstall on the wheel")
    library = os.path.join(_torch(), "lib")
    beside = os.path.join(home, "torch", "lib")
    if not os.path.exists(beside) or not os.path.samefile(library, beside):  # torch in another folder of packages
        others = os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = f"{library}:{others}" if others else library
    os.execv(program, ["workbench", *(sys.argv[1:] if arguments is None else arguments)])


def _torch():
    """The folder of torch, found without importing it."""
    spec = importlib.util.find_spec("torch")
    folder = next(iter(spec.submodule_search_locations or []), "") if spec else ""
    try:
        with open(os.path.join(folder, "version.py"), encoding="utf-8") as text:
            version = re.search(r"""^__version__ = ['"](.*)['"]""", text.read(), re.M).group(1)
    except (OSError, AttributeError):
        version = "none"
    if not version.startswith(TORCH + "."):
        sys.exit(f"[workbench] torch: got {version} for {sys.executable}, expected {TORCH}; "
                 f"try {sys.executable} -m pip install torch=={TORCH}.0")
    return folder
