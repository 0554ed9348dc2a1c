"""Runs the program on files that nobody vouches for, within bounds, and looks at what it left behind."""
import os
import resource
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from folder import InFolder
from processes import own_words

BINARY = os.environ["WORKBENCH_BINARY"]
SECONDS, BYTES = 10, 1 << 30  # of processor time: on a busy machine the clock says nothing
if "ASAN_OPTIONS" in os.environ:  # its shadow is memory too
    SECONDS, BYTES = 5 * SECONDS, resource.RLIM_INFINITY
PATIENCE_S = 90


def bounds(seconds):
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Strangers(InFolder):
    """A folder of its own; whatever is run may add nothing to it but what it was asked for."""

    def contents(self):
        found = {}
        for base, _, names in os.walk(self.folder):
            for name in names:
                if name.endswith(("-shm", "-wal")):
                    continue  # through which SQLite's readers and writers agree
                path = os.path.join(base, name)
                info = os.stat(path)
                found[os.path.relpath(path, self.folder)] = (info.st_size, info.st_mtime_ns)
        return found

    def run_bounded(self, *arguments, seconds=SECONDS):
        process = subprocess.Popen([BINARY, *arguments], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   cwd=self.folder, preexec_fn=lambda: bounds(seconds), start_new_session=True,
                                   env={**os.environ, "HOME": self.path("home"),
                                        "OMP_NUM_THREADS": "1"})
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            self.fail(f"{' '.join(arguments)}: still running after {PATIENCE_S} s")
        said = own_words(err.decode(errors="replace"))
        return process.returncode, out.decode(errors="replace"), said

    def refused(self, *arguments, code=2, says=""):
        """One line with this in it, the code, and nothing changed in the folder."""
        before = self.contents()
        got, out, err = self.run_bounded(*arguments)
        shown = f"{' '.join(arguments)}: exit {got}\n{out[-500:]}{err[-1500:]}"
        self.assertEqual(got, code, shown)
        self.assertEqual(len(err.strip().splitlines()), 1, shown)
        self.assertTrue(err.isprintable() or err.rstrip("\n").isprintable(), shown)
        self.assertIn(says, err, shown)
        self.assertEqual(self.contents(), before, shown)
        return err

    def fuse(self, name, **expected):
        return self.refused("fuse", self.path(name), "-n", "2", "--no-store", "--quiet",
                            **expected)

    def taken(self, *arguments):
        # What is computed is measured too, anew for each home, and as long as the machine is restless.
        got, out, err = self.run_bounded(*arguments, seconds=4 * SECONDS)
        self.assertEqual(got, 0, out[-500:] + err[-1500:])
        return out
