"""The Python processes that Open MPI's launcher started together. A process can begin MPI only once, and a script may train
several times: so each process begins MPI here, and passes on the messages between the `workbench train` programs that the
processes start, beside their own."""

import atexit
import collections
import ctypes
import json
import os
import select
import socket
import struct
import sys
import threading
import time

import nwide_program

from ..errors import Error, fail, one_line

HEADER = struct.Struct("<iq")  # of a program's message: a rank, -1: end all of them; and bytes
NUMBER = struct.Struct("<i")  # precedes messages between ranks: the number of the training they are for; 0: for Python
ALIVE_S, LOST_S, PAUSE_S, IDLE_S, FIRST_SAYS_S = 5, 40, 0.002, 0.01, 3
LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "SLURM_")  # how their variables begin, as in app/cluster/launch.cpp
# mpirun's variables where the user has chosen the processes' cores, as there; without one of them, mpirun binds unasked.
BINDINGS = ("OMPI_MCA_hwloc_base_binding_policy", "OMPI_MCA_hwloc_base_cpu_list", "OMPI_MCA_rmaps_rank_file_path",
            "OMPI_MCA_orte_rankfile")


class _Transport(ctypes.Structure):
    """app/cluster/transport.h"""

    _fields_ = [("rank", ctypes.c_int), ("size", ctypes.c_int),
                ("send", ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)),
                ("probe", ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(ctypes.c_int))),
                ("take", ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)),
                ("sent", ctypes.CFUNCTYPE(ctypes.c_bool)), ("finish", ctypes.CFUNCTYPE(None)),
                ("abort", ctypes.CFUNCTYPE(None, ctypes.c_int))]


def _number(name, otherwise):
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else otherwise


def mpi():
    """Whether Open MPI's launcher started this process."""
    return "OMPI_COMM_WORLD_SIZE" in os.environ or "PMIX_RANK" in os.environ


def size():
    """The number of processes started together; 1 without the launcher."""
    return _number("OMPI_COMM_WORLD_SIZE", _number("SLURM_NTASKS", 1)) if mpi() else 1


def without_launcher(environment):
    """The environment without the launcher's variables, for a program that works alone."""
    return {name: value for name, value in environment.items() if not name.startswith(LAUNCHERS)}


class Ranks:
    """All ranks, as seen by this process. One thread calls MPI, and forwards messages."""

    def __init__(self):
        self.rank = _number("OMPI_COMM_WORLD_RANK", _number("PMIX_RANK", 0))
        self.local = _number("OMPI_COMM_WORLD_LOCAL_SIZE", _number("SLURM_NTASKS_PER_NODE", 1))
        self.place = _number("OMPI_COMM_WORLD_LOCAL_RANK", _number("SLURM_LOCALID", 0))
        self.bound = "OMPI_COMM_WORLD_SIZE" not in os.environ or any(name in os.environ for name in BINDINGS)
        self.training, self.program, self.aborted, self.failed = 0, None, False, False
        self._wrong, self._over = None, None
        self._to_send, self._early, self._out, self._in = collections.deque(), [], bytearray(), bytearray()
        self._begun, self._ended = threading.Event(), threading.Event()
        self._usual_hook, sys.excepthook = sys.excepthook, self._uncaught

    def join(self):
        path = os.path.join(os.path.dirname(nwide_program.program()[0]), "workbench_mpi.so")
        if not os.path.exists(path):
            self._refuse("none in this package", "workbench_mpi.so, as it was started by mpirun or srun",
                         "apt-get install libopenmpi-dev, and ./workbench python again")
        if "mpi4py.MPI" in sys.modules:
            self._refuse("mpi4py, which has begun MPI in this process", "a process that has not", "a script without mpi4py")
        threading.Thread(target=self._serve, args=[path], daemon=True).start()
        self._begun.wait()
        if self._wrong:
            self._refuse(*self._wrong)
        atexit.register(self._end)

    @staticmethod
    def _refuse(*words):
        try:
            fail("mpi", "plugin", *words)
        except Error as error:
            error.of_all_ranks = True
            raise

    def _uncaught(self, kind, error, trace):
        """Prints an error that all ranks have in common only once."""
        everywhere = getattr(error, "of_all_ranks", False)
        self.failed = self.failed or not everywhere
        if not everywhere or self.rank == 0:
            self._usual_hook(kind, error, trace)
        elif not self._begun.is_set():
            time.sleep(FIRST_SAYS_S)  # the launcher ends all ranks when one has ended

    def tell(self, message):
        """Rank 0 tells all others."""
        for other in range(1, self.size):
            self._to_send.append((other, NUMBER.pack(0) + json.dumps(message).encode()))

    def told(self):
        """The next message of rank 0."""
        while not self._heard:
            silent = time.monotonic() - self._last[0]
            if self.aborted or silent > LOST_S:
                self.aborted = True
                fail("train", "rank 0", f"no heartbeat for {LOST_S} s", "one", "mpirun again")
            time.sleep(PAUSE_S)
        return self._heard.popleft()

    def starts(self):
        """Begins a training: returns the environment variable and the socket for its program."""
        mine, its = socket.socketpair()
        mine.setblocking(False)
        self.training += 1
        self._out, self._in = bytearray(), bytearray()
        self.program = mine
        numbers = self.rank, self.size, self.local, self.place, int(self.bound), its.fileno()
        return {"WORKBENCH_RANK": ",".join(map(str, numbers))}, its

    def awaits_end(self):
        """Returns once the program has ended and all its messages were sent."""
        while self.program is not None:
            time.sleep(PAUSE_S)

    # The methods below run on the thread that calls MPI.

    def _serve(self, path):
        try:
            join = ctypes.CDLL(path, ctypes.RTLD_GLOBAL).workbench_join_mpi
            join.restype = ctypes.POINTER(_Transport)
            joined = join()
            self._wrong = None if joined else ("no other ranks that answer", "those of mpirun", "mpirun again")
        except (OSError, AttributeError) as error:
            self._wrong = (one_line(error), "one that loads", "./workbench python again")
        if self._wrong:
            self._begun.set()
            return
        self._mpi = joined.contents
        self.rank, self.size = self._mpi.rank, self._mpi.size
        self._heard, self._last = collections.deque(), [time.monotonic()] * self.size
        alive = time.monotonic()
        self._begun.set()
        while self._over is None:
            self._take()
            self._send_all()
            program = self.program
            if program is not None:
                self._pass_on(program)
            else:
                time.sleep(IDLE_S)
            if time.monotonic() - alive > ALIVE_S:
                alive = time.monotonic()
                for other in range(self.size):
                    if other != self.rank:
                        self._send(other, NUMBER.pack(0))
        self._send_all()
        while not self._mpi.sent():
            self._take()
        if self._over:
            self._mpi.abort(self._over)
        self._mpi.finish()
        self._ended.set()

    def _send_all(self):
        while self._to_send:
            self._send(*self._to_send.popleft())

    def _send(self, to, data):
        self._mpi.send(to, bytes(data), len(data))

    def _take(self):
        source = ctypes.c_int()
        while (length := self._mpi.probe(ctypes.byref(source))) >= 0:
            buffer = ctypes.create_string_buffer(max(1, length))
            self._mpi.take(source.value, buffer, length)
            self._last[source.value] = time.monotonic()
            number, text = NUMBER.unpack_from(buffer.raw)[0], buffer.raw[NUMBER.size:length]
            if number:
                self._early.append((number, HEADER.pack(source.value, len(text)) + text))
            elif text:
                self._heard.append(json.loads(text))

    def _pass_on(self, program):
        number = self.training
        self._out += b"".join(text for of, text in self._early if of == number)
        self._early = [(of, text) for of, text in self._early if of > number]
        select.select([program], [program] if self._out else [], [], PAUSE_S)
        try:
            if self._out:
                del self._out[:program.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:  # the program has ended; its messages are still read
            self._out.clear()
        try:
            got = program.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            got = b""
        self._in += got
        while len(self._in) >= HEADER.size:
            to, length = HEADER.unpack_from(self._in)
            if len(self._in) < HEADER.size + length:
                break
            text = self._in[HEADER.size:HEADER.size + length]
            del self._in[:HEADER.size + length]
            if to < 0:
                self.aborted = True
            else:
                self._send(to, NUMBER.pack(number) + text)
        if not got:
            program.close()
            self.program = None

    def _end(self):
        """Ends together with the other ranks, without waiting for one that has failed or is lost."""
        self._over = 1 if self.failed or self.aborted else 0
        self._ended.wait()


_all = None


def ranks():
    """The Ranks of this process; None if it works alone. Raises nw.Error if the MPI plugin is missing."""
    global _all
    if size() > 1 and _all is None:
        joined = Ranks()
        joined.join()
        _all = joined
    return _all


def alone(what, why):
    """Raises Error for options that several ranks do not support."""
    if size() > 1:
        fail("train", what, f"{size()} ranks", f"one process, as {why}", "it without mpirun")


def of_all(lead, follow, run):
    """What all ranks call together: rank 0 does it, `lead()`, and others take part in the trainings that it starts, by `run`
    of the program's arguments. Their result is that of `follow(words)`, of what `lead` returned first; rank 0's is the
    second. An error of rank 0 is raised on all."""
    everyone = ranks()
    if everyone is None:
        return lead()[1]
    if everyone.rank == 0:
        try:
            words, result = lead()
        except BaseException as error:
            error.of_all_ranks = True
            line = str(error) if isinstance(error, Error) else f"[train] rank 0: got {one_line(error)}, expected a run; try it alone"
            everyone.tell({"error": line})
            raise
        everyone.tell({"done": words})
        return result
    while True:
        said = everyone.told()
        if "train" in said:
            try:
                run(said["train"])
            except Error:
                if everyone.aborted:
                    raise
        elif "error" in said:
            error = Error(said["error"])
            error.of_all_ranks = True
            raise error
        else:
            return follow(said["done"])
