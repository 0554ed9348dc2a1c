"""`nw.train` where `mpirun -n 4 python script.py` runs the script: each process starts the program as its rank. The first says what a
run is made of, the others follow it, and all read the same results from the run's folder."""

import json
import os
import re
import shutil
import sys
import time

from ..errors import Error, fail

_begun = False
_PAUSE_S = 0.02


def rank():
    """This process's number among those that run the script together."""
    return _number("OMPI_COMM_WORLD_RANK", _number("PMIX_RANK", 0))


def size():
    """How many they are."""
    if "OMPI_COMM_WORLD_SIZE" not in os.environ and "PMIX_RANK" not in os.environ:
        return 1
    return _number("OMPI_COMM_WORLD_SIZE", _number("SLURM_NTASKS", 1))


def begin(runs=1):
    """Open MPI lets a process begin once: the program that a run is trained by is one, and the next would be another."""
    global _begun
    if size() == 1:
        return
    if "mpi4py.MPI" in sys.modules:
        fail("train", "ranks", "mpi4py, which has begun MPI in this process", "a process that has not", "a script without mpi4py")
    if _begun or runs > 1:
        fail("train", "ranks", "a second run in what mpirun started" if _begun else f"{runs} wide runs for {size()} ranks",
             "one, as Open MPI lets a rank begin once", "mpirun for each")
    _begun = True


def _number(name, otherwise):
    return int(os.environ.get(name) or otherwise)


class Alone:
    """One process: nobody listens."""

    def tell(self, word):
        pass

    def agree(self, word):
        pass

    def end(self):
        pass


class Meetings:
    """What processes say to each other: files beside the run's folder, which all of them see as they see the run."""

    def __init__(self, folder):
        job = re.sub(r"\W", "", os.environ.get("PMIX_NAMESPACE", ""))
        self.folder = f"{folder}.ranks-{job}"
        self.count, self.over = 0, False  # words said; whether one of them was an error
        os.makedirs(self.folder, exist_ok=True)

    def tell(self, word):
        """Of the first process: what a run is made of, or the error that it ends with."""
        self._say(word)

    def told(self):
        """Of the others: the same, once it is there. Throws that error."""
        self._say({})
        return self._agreed([self._hear(0)])

    def agree(self, word):
        """Says what became of a run, and returns what became of it in the first process. Throws what any has ended with."""
        if self.over:
            return None
        self._say(word)
        return self._agreed([self._hear(other) for other in range(size())])

    def end(self):
        """The last one to leave removes the files."""
        with open(os.path.join(self.folder, f"left-{rank()}"), "w", encoding="utf-8"):
            pass
        if all(os.path.exists(os.path.join(self.folder, f"left-{other}")) for other in range(size())):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _agreed(self, words):
        errors = [word["error"] for word in words if word.get("error")]
        self.over = bool(errors)
        if errors:  # that of the rank that knows why, before those of the ones that were ended
            raise Error(min(errors, key=lambda error: error.startswith("[workbench] program: ")))
        return words[0]

    def _say(self, word):
        self.count += 1
        path = self._path(rank())
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(word, file)
        os.replace(f"{path}.new", path)

    def _hear(self, other):
        while not os.path.exists(self._path(other)):
            time.sleep(_PAUSE_S)
        with open(self._path(other), encoding="utf-8") as file:
            return json.load(file)

    def _path(self, of):
        return os.path.join(self.folder, f"{self.count}-{of}.json")
