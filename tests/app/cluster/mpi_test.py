"""Sweeps over ranks of Open MPI: the same cases as alone, nothing twice whoever dies, and one line where it cannot be."""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, os.path.join(HERE, "..", ".."))
from command_line import BINARY, CommandLine
from ranks import ENVIRONMENT, MPIRUN, WHY_NOT, Ranks, environment, processes

SWEEP = ["sweep", "ci", "--targets", "linear,rmsnorm", "--axis", "linear.B=3", "--axis", "linear.D=8", "-n", "1,2,3,5",
         "--budget", "0.02"]
KILLS = 5
CASES = """SELECT position, target, shape, dtype, device, mode, phase, n, strategies FROM "case" ORDER BY 1"""
TRIALS = """SELECT c.position, t.position, t.strategy, t.status FROM "case" AS c JOIN trial AS t ON t."case" = c.id
            ORDER BY 1, 2"""
# A case that has two results, or a baseline that is there twice.
TWICE = """SELECT 'trial', "case", strategy FROM trial GROUP BY 2, 3 HAVING count(*) > 1 UNION ALL
           SELECT 'baseline', "case", name FROM timing WHERE trial IS NULL GROUP BY 2, 3 HAVING count(*) > 1"""


def shell(db, sql):
    run = subprocess.run(["sqlite3", "-readonly", "-cmd", ".timeout 10000", db, sql], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def files_of(pid):
    """That a process has open."""
    files = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            files.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    except OSError:
        pass
    return files


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Mpi(Ranks):
    def setUp(self):
        super().setUp()
        self.db = self.path("sweep.db")

    def start(self, ranks, *options, db=None):
        return self.begin(ranks, *SWEEP, "--db", db or self.db, *options)

    def done(self):
        if not os.path.exists(self.db):
            return 0
        run = subprocess.run(["sqlite3", "-readonly", "-cmd", ".timeout 10000", self.db,
                              """SELECT count(*) FROM "case" WHERE state = 'done'"""], capture_output=True, text=True, timeout=60)
        return int(run.stdout or 0)

    def test_the_same_cases_as_alone(self):
        alone = self.path("alone.db")
        self.workbench(*SWEEP, "--db", alone, "--quiet")
        job = self.start(3, "--allow-sharing")
        wanted = 3
        ranks = self.ranks_of(job, wanted)
        workers, opened = {}, {rank: set() for rank in ranks}
        while job.poll() is None:  # what the ranks start knows of no launcher
            for pid, parent, arguments in processes():
                if parent in ranks.values() and arguments[1:] == ["worker"]:
                    try:
                        workers[pid] = (parent, environment(pid))
                    except OSError:
                        pass
            for rank, pid in ranks.items():
                opened[rank] |= files_of(pid)
            for pid, (parent, _) in workers.items():
                opened[next(r for r, p in ranks.items() if p == parent)] |= files_of(pid)
            time.sleep(0.05)
        text = job.communicate()[0]
        self.assertEqual(job.returncode, 0, text)
        self.assertEqual({parent for parent, _ in workers.values()}, {ranks[1], ranks[2]})
        for _, variables in workers.values():
            self.assertEqual([v for v in variables if v.startswith(("OMPI_", "PMIX_", "PMI_", "SLURM_"))], [])
            self.assertIn("PATH", variables)
        # Rank 0 alone opens the store.
        self.assertEqual([rank for rank, files in opened.items() if os.path.realpath(self.db) in files], [0])
        self.assertEqual(shell(self.db, CASES), shell(alone, CASES))
        trials = shell(self.db, TRIALS)
        self.assertEqual(trials, shell(alone, TRIALS))
        self.assertTrue(all(row.endswith("|ok") for row in trials), trials)
        self.assertEqual(shell(self.db, """SELECT DISTINCT machine FROM "case" """),
                         shell(alone, """SELECT DISTINCT machine FROM "case" """))
        self.assertEqual(shell(self.db, "SELECT state FROM sweep"), ["complete"])
        self.assertEqual(text.count("faster from:"), 2, text)  # a table for each target, once it is complete

    def test_whoever_is_killed_nothing_is_lost(self):
        choose = random.Random(7)
        for victim in ("rank 0", "rank 1", "mpirun"):
            for turn in range(KILLS):
                resume = ["--resume"] if os.path.exists(self.db) and self.started() else []
                wanted = 2 + turn % 2
                job = self.start(wanted, "--allow-sharing", "--quiet", *resume)
                ranks = self.ranks_of(job, wanted)
                time.sleep(choose.uniform(0, 2.5))
                before = self.done()
                try:
                    os.kill({"rank 0": ranks[0], "rank 1": ranks[1], "mpirun": job.pid}[victim], signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it was faster
                job.communicate(timeout=120)
                self.gone(ranks)
                self.assertGreaterEqual(self.done(), before)
                if self.started():
                    self.assertEqual(shell(self.db, TWICE), [])
                    if shell(self.db, "SELECT state FROM sweep") == ["complete"]:
                        os.remove(self.db)
            resume = ["--resume"] if os.path.exists(self.db) and self.started() else []
            self.run_ranks(4 if victim == "mpirun" else 2, "--allow-sharing", "--quiet", *resume)
            self.assertEqual(shell(self.db, TWICE), [])
            self.assertEqual(shell(self.db, "SELECT state FROM sweep"), ["complete"])
            self.assertEqual(shell(self.db, """SELECT DISTINCT state FROM "case" """), ["done"])
            self.assertEqual(shell(self.db, "PRAGMA integrity_check; PRAGMA foreign_key_check"), ["ok"])
            for suffix in ("", "-wal", "-shm"):
                if os.path.exists(self.db + suffix):
                    os.remove(self.db + suffix)

    def started(self):
        try:
            return shell(self.db, "SELECT count(*) FROM sweep") != ["0"]
        except AssertionError:
            return False  # no tables yet

    def gone(self, ranks):
        """Nobody writes any more."""
        end = time.monotonic() + 60
        while any(os.path.exists(f"/proc/{pid}") for pid in ranks.values()):
            self.assertLess(time.monotonic(), end, "ranks that stay")
            time.sleep(0.05)

    def test_a_rank_that_hangs_is_lost_within_a_minute(self):
        wanted = 3
        job = self.start(3, "--allow-sharing")
        ranks = self.ranks_of(job, wanted)
        while self.done() == 0 and job.poll() is None:
            time.sleep(0.02)
        os.kill(ranks[2], signal.SIGSTOP)
        begun = time.monotonic()
        try:
            text = job.communicate(timeout=100)[0]
        finally:
            for pid in ranks.values():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.assertLess(time.monotonic() - begun, 80)
        self.assertEqual(shell(self.db, "SELECT state FROM sweep"), ["complete"], text)
        self.assertEqual(shell(self.db, """SELECT DISTINCT state FROM "case" """), ["done"])
        self.assertEqual(shell(self.db, TWICE), [])
        changes = shell(self.db, "SELECT value FROM sweep, json_each(changes)")
        lost = f"rank 2 ({os.uname().nodename}: "
        self.assertEqual([c.startswith(lost) and "is lost: no heartbeat" in c for c in changes], [True],
                         changes)
        self.assertEqual(text.splitlines().count(changes[0]), 1, text)
        told = [(int(case), int(of)) for case, of in re.findall(r"^\[(\d+)/(\d+)\] ", text, re.MULTILINE)]
        self.assertEqual({of for _, of in told}, {8}, text)
        self.assertEqual(max(case for case, _ in told), 8, text)

    def test_what_began_over_ranks_goes_on_alone(self):
        """And what began alone goes on over ranks: nobody asked for a number of threads."""
        for alone_first in (False, True):
            self.db = self.path(f"{alone_first}.db")
            wanted = 2
            job = subprocess.Popen([BINARY, *SWEEP, "--quiet", "--db", self.db]) if alone_first else self.start(2, "--quiet")
            ranks = {} if alone_first else self.ranks_of(job, wanted)
            while self.done() == 0 and job.poll() is None:
                time.sleep(0.02)
            job.kill()
            job.wait()
            self.gone(ranks)
            self.assertNotEqual(shell(self.db, "SELECT state FROM sweep"), ["complete"])
            if alone_first:
                self.run_ranks(2, "--quiet", "--resume")
            else:
                self.workbench(*SWEEP, "--quiet", "--resume", "--db", self.db)
            self.assertEqual(shell(self.db, "SELECT state FROM sweep"), ["complete"])
            self.assertEqual(shell(self.db, TWICE), [])
            self.assertEqual(len(shell(self.db, """SELECT DISTINCT machine FROM "case" """)), 1)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one core: there can be no other machine")
    def test_each_machine_measures_all(self):
        """The second machine is this one with a core less, by its own choice."""
        other = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
        sweep = [BINARY, *SWEEP, "--each-machine", "--allow-sharing", "--quiet"]

        def start(db, *options, other_ranks=1, ranks=2):
            more = [":", "-n", str(other_ranks), *other, *sweep, "--db", db, *options] if other_ranks else []
            job = subprocess.Popen([MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *sweep, "--db", db,
                                    *options, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=ENVIRONMENT)
            self.jobs.append(job)
            return job

        def cases(machine=""):
            return shell(self.db, f"""SELECT target, shape, n, machine FROM "case" WHERE machine LIKE '%{machine}' ORDER BY 1, 2, 3""")

        job = start(self.db, "--timeout", "300")
        while self.done() < 2 and job.poll() is None:
            time.sleep(0.02)
        job.kill()
        job.communicate()
        planned = cases()
        one = [c for c in planned if c.endswith(", 1 core")]
        self.assertEqual([c.rpartition("|")[0] for c in planned if c not in one], [c.rpartition("|")[0] for c in one])
        self.assertEqual(len(one), 8)
        # Nobody else may measure what is left of a machine.
        text = self.refused_resume(start(self.db, "--resume", other_ranks=0))
        self.assertRegex(text, r"\[sweep 1\] resume: got nobody on .*, 1 core, expected a rank there as it was started; try")
        job = start(self.db, "--resume", other_ranks=2)
        text = job.communicate(timeout=300)[0]
        self.assertEqual(job.returncode, 0, text)
        self.assertEqual(cases(), planned)
        self.assertEqual(shell(self.db, """SELECT DISTINCT state FROM "case" """), ["done"])
        self.assertEqual(shell(self.db, TWICE), [])
        self.assertEqual(shell(self.db, "SELECT state FROM sweep"), ["complete"])

    def refused_resume(self, job):
        text = job.communicate(timeout=120)[0]
        self.assertEqual(job.returncode, 2, text)
        return text

    def test_two_on_the_same_cores_are_refused(self):
        text = self.run_ranks(3, expect=2)
        self.assertEqual(text.count("[sweep] ranks: got two that measure on core"), 1, text)
        self.assertIn("expected one; try --allow-sharing, or mpirun --map-by ppr:1:node\n", text)
        self.assertFalse(os.path.exists(self.db))
        text = self.run_ranks(2, "--quiet", "--targets", "rmsnorm")  # one that measures, and rank 0
        self.assertEqual(shell(self.db, "SELECT state FROM sweep"), ["complete"])

    def test_one_rank_measures_with_all_cores_unless_it_is_bound(self):
        """By itself mpirun binds each of two ranks to one core."""
        for binding, cores in (([], os.cpu_count()), (["--bind-to", "core"], 1)):
            db = self.path(f"{cores}.db")
            job = subprocess.run([MPIRUN, "--oversubscribe", *binding, "-n", "2", BINARY, "sweep", "ci", "--targets",
                                  "rmsnorm", "-n", "2", "--budget", "0.02", "--quiet", "--db", db], capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
            self.assertEqual(job.returncode, 0, job.stderr)
            self.assertEqual(shell(db, "SELECT cores, threads FROM environment"), [f"{cores}|{cores}"])

    def test_ctrl_c_is_one_line(self):
        """To mpirun, which asks the ranks to end, kills them where they take too long, and ends with 1; or to rank 0 alone."""
        for victim in ("mpirun", "rank 0"):
            self.db = self.path(f"{victim}.db")
            job = subprocess.Popen([MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", "3", BINARY, *SWEEP[:-1], "2", "--quiet",
                                    "--allow-sharing", "--db", self.db], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True,
                                   env={**ENVIRONMENT, "OMPI_MCA_odls_base_sigkill_timeout": "4"})
            self.jobs.append(job)
            ranks = self.ranks_of(job, 3)
            while self.done() == 0 and job.poll() is None:
                time.sleep(0.02)
            os.kill(job.pid if victim == "mpirun" else ranks[0], signal.SIGINT)
            text = job.communicate(timeout=120)[0]
            self.gone(ranks)
            self.assertEqual([line for line in text.splitlines() if line.startswith("[")], ["[workbench] cancelled"], text)
            self.assertEqual(job.returncode, 1 if victim == "mpirun" else 130, text)
            self.assertEqual(shell(self.db, "SELECT state FROM sweep"), ["cancelled"])
            self.assertEqual(shell(self.db, TWICE), [])

    def test_a_mistake_is_said_once(self):
        text = self.run_ranks(3, "--device", "cup", expect=2)
        self.assertEqual(len([line for line in text.splitlines() if line.startswith("[")]), 1, text)
        job = subprocess.run([MPIRUN, "--oversubscribe", "-n", "2", BINARY, "train", "net.pt2", "--data", "d.npz"],
                             capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
        self.assertEqual(job.returncode, 2)
        self.assertEqual(job.stderr.count("[net.pt2] file: got none, expected a network; try another path"), 1, job.stderr)

    def test_without_the_plugin_it_is_one_line(self):
        program = shutil.copy(BINARY, self.path("workbench"))
        job = subprocess.run([MPIRUN, "--oversubscribe", "-n", "3", program, *SWEEP, "--no-store"], capture_output=True,
                             text=True, timeout=120, env=ENVIRONMENT)
        self.assertEqual(job.returncode, 1, job.stderr)
        lines = [line for line in job.stderr.splitlines() if line.startswith("[")]
        self.assertEqual(lines, ["[mpi] plugin: got none, expected workbench_mpi.so beside the program; try apt-get install "
                                 "libopenmpi-dev and build again"])


class Launchers(CommandLine):
    def refused(self, message, **variables):
        run = subprocess.run([BINARY, *SWEEP, "--no-store"], capture_output=True, text=True, timeout=60,
                             env={**os.environ, **variables})
        self.assertEqual((run.returncode, run.stderr, run.stdout), (1, message, ""))

    def test_processes_that_do_not_know_of_each_other_are_refused(self):
        mpich = "[mpi] launcher: got one of another MPI, expected Open MPI's; try mpirun.openmpi, or srun --mpi=pmix\n"
        srun = "[mpi] srun: got several tasks that do not know of each other, expected PMIx; try srun --mpi=pmix\n"
        self.refused(mpich, PMI_SIZE="2", PMI_RANK="0")
        self.refused("", PMI_SIZE="2", PMI_RANK="1")
        self.refused(srun, SLURM_STEP_NUM_TASKS="3", SLURM_PROCID="0")
        self.refused("", SLURM_STEP_NUM_TASKS="3", SLURM_PROCID="2")

    def test_the_script_sets_up_nothing(self):
        root = self.path("checkout")
        os.mkdir(root)
        shutil.copy(os.path.join(os.environ["WORKBENCH_SOURCE"], "workbench"), root)

        def run(**variables):
            return subprocess.run([os.path.join(root, "workbench"), "a", "b c"], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "WORKBENCH_PRESET": "release", **variables})

        for variables in ({"OMPI_COMM_WORLD_SIZE": "1"}, {"PMIX_RANK": "0"}, {"PMI_SIZE": "2", "PMI_RANK": "0"},
                          {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}):
            none = run(**variables)
            self.assertEqual((none.returncode, none.stdout), (1, ""))
            self.assertEqual(none.stderr, f"workbench: ranks: got no build in {os.path.realpath(root)}/build/release, expected "
                                          "one; try ./workbench --version before\n")
        self.assertEqual(run(PMIX_RANK="1").stderr, "")
        self.assertEqual(run(SLURM_STEP_NUM_TASKS="2", SLURM_PROCID="1").stderr, "")
        self.assertEqual(os.listdir(root), ["workbench"])
        for folder in ("engine", "primitives", "blocks", "data", "app", "presets", "build/release"):
            os.makedirs(os.path.join(root, folder))
        for file in ("CMakeLists.txt", "app/main.cpp"):
            with open(os.path.join(root, file), "w", encoding="utf-8"):
                pass
            os.utime(os.path.join(root, file), (1, 1))
        program = os.path.join(root, "build/release/workbench")
        with open(program, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\necho "$1|$2"\n')
        os.chmod(program, 0o755)
        good = run(OMPI_COMM_WORLD_SIZE="2")
        self.assertEqual((good.returncode, good.stdout, good.stderr), (0, "a|b c\n", ""))
        os.utime(os.path.join(root, "app/main.cpp"), (4e9, 4e9))
        stale = run(OMPI_COMM_WORLD_SIZE="2")
        self.assertEqual((stale.returncode, stale.stdout), (1, ""))
        self.assertEqual(stale.stderr, "workbench: ranks: got a build older than app/main.cpp, expected one of now; try "
                                       "./workbench --version before\n")


if __name__ == "__main__":
    unittest.main()
