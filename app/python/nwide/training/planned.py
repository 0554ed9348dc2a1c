"""Wide runs whose files and arguments are prepared. Those of one call of nw.train stand in a file, so that those that did not
begin can be begun later, also by another process."""

import contextlib
import json
import os

from . import program
from .folder import keep, read_kept, read_report, storable, write_json

PLANNED = "planned.json"  # the wide runs of one call of nw.train, beside its data


class Planned:
    """One wide run. `folder`: where it is saved, or "". `arguments`: of the command. `kept`: what only Python knows of it."""

    def __init__(self, folder, arguments, kept):
        self.folder, self.arguments, self.kept = folder, arguments, kept
        self.loss, self.functions = None, {}  # functions of Python, which the process that prepared it has
        self.begun = False

    def __str__(self):
        return ", ".join(f"{name} {value}" for name, value in self.kept["chosen"].items())

    def train(self, tell, steering=None, threads=None):
        """Begins the run, or goes on with it if its process was killed. Returns its report. Raises KeyboardInterrupt if it was
        interrupted before it began."""
        if not self.folder:
            return self._without_folder(tell, steering)
        os.makedirs(self.folder, exist_ok=True)
        before, earlier = self._state(), read_kept(self.folder)
        if before and earlier.get("files") == self.kept["files"]:
            words = [f"--resume={self.folder}", *([f"--db={self.kept['db']}"] if self.kept["db"] else [])]
        else:
            own = [word for word in self.arguments if threads is None or not word.startswith("--threads=")]
            words = [*own, f"--save={self.folder}"]
        words += [f"--threads={threads}"] if threads is not None else []
        keep(self.folder, self.kept)  # before the run begins: it may be killed, and the command may go on with it
        try:
            program.run(["train", *words, *(["--wait"] if steering else [])], tell, steering)
        finally:
            if steering and steering.epochs:
                self.kept["waited"] = steering.epochs.waited
            self.begun = self._state() != before  # a run that ended in an error may be resumed too
            keep(self.folder, self.kept if self.begun else earlier)
            if not self.begun:
                with contextlib.suppress(OSError):  # there are other files in it
                    os.rmdir(self.folder)
        if not self.begun:
            raise KeyboardInterrupt
        return read_report(self.folder)

    def _without_folder(self, tell, steering):
        path = os.path.join(self.kept["files"], "report.json")
        interrupted = program.run(["train", *self.arguments, f"--json={path}", *(["--wait"] if steering else [])], tell, steering)
        if interrupted and not os.path.exists(path):
            raise KeyboardInterrupt  # nothing had begun
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        os.remove(path)
        return report

    def _state(self):
        """A value that changes whenever the run's state file is written."""
        try:
            found = os.stat(os.path.join(self.folder, "run.safetensors"))
            return found.st_ino, found.st_mtime_ns
        except OSError:
            return None


def save_planned(files, planned):
    write_json(os.path.join(files, PLANNED), [
        {"folder": one.folder, "arguments": one.arguments, "kept": storable(one.kept)} for one in planned])


def planned_beside(parts):
    """The wide runs of the same call of nw.train that have no report."""
    try:
        with open(os.path.join(parts[0].kept["files"], PLANNED), encoding="utf-8") as file:
            found = [Planned(**one) for one in json.load(file)]
    except (OSError, KeyError):
        return []
    there = {part.folder for part in parts}
    return [one for one in found if one.folder not in there]
