"""The command `workbench`: replaces this process by the program inside the package nwide (exec).

Neither torch nor nwide is imported, so that it starts at once and opens files from elsewhere in a process without threads.
"""

import importlib.util
import os
import re
import sys

TORCH = "2.11"


def main(arguments=None):
    path, environment = program()
    os.execve(path, ["workbench", *(sys.argv[1:] if arguments is None else arguments)], environment)


def program():
    """The program's path, and the environment in which it finds torch."""
    home = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(home, "nwide", "workbench")
    if not os.path.exists(path):
        sys.exit(f"[workbench] program: got none in {os.path.dirname(path)}, expected that of nwide's wheel; "
                 "try pip install --force-reinstall on the wheel")
    environment = dict(os.environ)
    library = os.path.join(_torch(), "lib")
    beside = os.path.join(home, "torch", "lib")
    if not os.path.exists(beside) or not os.path.samefile(library, beside):  # torch lies in another site-packages folder
        others = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = f"{library}:{others}" if others else library
    return path, environment


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
