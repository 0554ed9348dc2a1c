"""What tests of runs under mpirun have in common."""
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from command_line import BINARY, CommandLine

PLUGIN = os.path.join(os.path.dirname(BINARY), "workbench_mpi.so")
MPIRUN = shutil.which("mpirun.openmpi")
WHY_NOT = "no mpirun of Open MPI" if not MPIRUN else None if os.path.exists(PLUGIN) else "built without Open MPI's headers"
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_btl_base_warn_component_unused": "0"}


def processes():
    """(pid, parent, arguments) of all that run."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                arguments = file.read().decode(errors="replace").split("\0")[:-1]
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        found.append((int(pid), parent, arguments))
    return found


def environment(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return dict(v.split("=", 1) for v in file.read().decode(errors="replace").split("\0") if "=" in v)


class Ranks(CommandLine):
    def setUp(self):
        super().setUp()
        self.jobs = []
        self.addCleanup(self.end)

    def end(self):
        for job in self.jobs:
            if job.poll() is None:
                job.kill()
            job.wait()
            job.stdout.close()

    def begin(self, ranks, *command, program=BINARY, **variables):
        """mpirun with ranks of a program."""
        job = subprocess.Popen([MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), program, *command],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**ENVIRONMENT, **variables})
        self.jobs.append(job)
        return job

    def run_ranks(self, ranks, *options, expect=0, **more):
        job = self.start(ranks, *options, **more)
        text = job.communicate(timeout=300)[0]
        self.assertEqual(job.returncode, expect, text)
        return text

    def ranks_of(self, job, count):
        """Process by rank, once all are there."""
        end = time.monotonic() + 60
        while time.monotonic() < end and job.poll() is None:
            found = {}
            for pid, parent, _ in processes():
                if parent == job.pid:
                    try:
                        found[int(environment(pid)["OMPI_COMM_WORLD_RANK"])] = pid
                    except (OSError, KeyError):
                        pass
            if len(found) == count:
                return found
            time.sleep(0.01)
        return self.fail("ranks did not start: " + (job.stdout.read() if job.poll() is not None else ""))
