"""Files of a run's folder: its report, and what only Python knows of it."""

import contextlib
import json
import os

from ..errors import fail

KEPT = "python.json"  # facts about a run that only Python knows, stored beside its report


def read_report(folder):
    try:
        with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
            return json.load(file)
    except OSError:
        fail("open_run", str(folder), "no run's report", "the folder of a run", "workbench list runs")


def read_kept(folder):
    with contextlib.suppress(OSError):
        with open(os.path.join(folder, KEPT), encoding="utf-8") as file:
            return json.load(file)
    return {}


def keep(folder, kept):
    """Saves the facts that only Python knows, at once or not at all. Without facts there is no file."""
    path = os.path.join(folder, KEPT)
    if kept:
        write_json(path, {"schema": 1, **storable(kept)})
        return
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def storable(kept):
    """The values that JSON can hold; others are left out, as the factory's arguments may be anything."""
    return {name: value for name, value in kept.items() if _is_plain(value)}


def write_json(path, value):
    """Writes a file at once or not at all."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    os.replace(f"{path}.new", path)


def _is_plain(value):
    try:
        json.dumps(value)
        return True
    except (TypeError, ValueError):
        return False
