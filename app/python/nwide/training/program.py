"""Runs the program `workbench` as a child process."""

import collections
import re
import signal
import subprocess
import threading

import nwide_program

from .. import progress
from ..errors import Error, fail
from . import ranks
from .options import in_words

STEP = re.compile(r"^epoch .* · step (\d+)/(\d+) · (.*)$")


class Tell:
    """Prints the program's output; its progress by tqdm if that is installed and a terminal or notebook shows it."""

    def __init__(self, quiet):
        self.quiet, self.bar = quiet, None

    def __call__(self, text):
        if self.quiet:
            return
        found = STEP.match(text)
        if found and progress.tqdm and progress._watched():
            self._move(int(found[1]), int(found[2]), found[3])
        elif self.bar:
            self.bar.write(text)
        else:
            print(text, flush=True)

    def _move(self, step, steps, rest):
        if self.bar is None:
            self.bar = progress.tqdm(total=steps, unit="step", leave=False)
        self.bar.update(step - self.bar.n)
        self.bar.set_postfix_str(rest.rpartition("ETA ")[2].partition(" · ")[2] or rest)

    def close(self):
        if self.bar:
            self.bar.close()
            self.bar = None


def run(arguments, tell=None, steering=None):
    """Runs `workbench` with these arguments. Returns its exit code, 0 or 130 (interrupted); others are raised as nw.Error in
    one line. A KeyboardInterrupt is passed to the program, which saves and ends with 130; so is an error of a callback
    of `steering`, which is raised afterwards. What does not train has nothing to save: KeyboardInterrupt is raised again.
    Under MPI all ranks train together."""
    try:
        path, environment = nwide_program.program()
    except SystemExit as error:
        raise Error(str(error)) from None
    if ranks.mpi():
        environment = ranks.without_launcher(environment)
    everyone, theirs = ranks.ranks() if arguments[0] == "train" else None, None
    if everyone:
        if everyone.rank == 0:
            everyone.tell({"train": arguments})
        variable, theirs = everyone.starts()
        environment.update(variable)
    try:  # in a session of its own: Ctrl-C in a terminal reaches this process alone
        child = subprocess.Popen([path, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, errors="replace", env=environment, start_new_session=True,
                                 pass_fds=[theirs.fileno()] if theirs else [])
    except OSError as error:
        fail("workbench", "program", error.strerror, "one that starts", "pip install --force-reinstall on nwide's wheel")
    finally:
        if theirs:
            theirs.close()
    errors = collections.deque(maxlen=20)
    reader = threading.Thread(target=lambda: errors.extend(child.stderr), daemon=True)
    reader.start()
    failure, interrupted = None, False
    while True:
        try:
            for line in child.stdout:
                line = line.rstrip("\n")
                if steering and steering.takes(line):
                    continue
                if tell:
                    tell(line)
                found = STEP.match(line)
                if steering and found and not failure:
                    try:
                        steering.evaluated(int(found[1]), int(found[2]))
                    except Exception as error:  # the user's code may raise anything
                        failure = error
                        child.send_signal(signal.SIGINT)
            code = child.wait()
            break
        except KeyboardInterrupt:
            interrupted = True
            child.send_signal(signal.SIGINT)
        except BaseException:
            child.kill()
            child.wait()
            raise
    if interrupted and code == -signal.SIGINT:  # before the program could take it
        code = 130
    reader.join()
    child.stdout.close()
    child.stderr.close()
    if everyone:
        everyone.awaits_end()
    if tell:
        tell.close()
    try:
        if failure:
            raise failure
        if steering and code in (0, 130):
            steering.check()
    finally:
        if steering:
            steering.close()
    if interrupted and arguments[0] != "train":
        raise KeyboardInterrupt
    if code in (0, 130):
        return code
    raise Error(said(code, [line.rstrip("\n") for line in errors]))


def said(code, lines):
    """The nw.Error for the program's last line, with Python's names of options."""
    found = [line for line in lines if line.startswith("[")] or lines
    if found:
        return in_words(found[-1])
    ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"[workbench] program: got {ended}, expected an end; try the same again, with less data"
