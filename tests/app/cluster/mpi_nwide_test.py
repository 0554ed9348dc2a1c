"""`nw.train` in a script that mpirun starts: all ranks get the result of one process, and one says what is wrong."""
import json
import os
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in (os.path.join(HERE, "..", "python"), os.path.join(HERE, "..", "..")):
    sys.path.insert(0, folder)
import package
from ranks import WHY_NOT, Ranks

SCRIPT = os.path.join(HERE, "fixtures", "training.py")


@unittest.skipIf(WHY_NOT, WHY_NOT)
class MpiNwide(Ranks):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.python = package.built()

    def start(self, ranks, what, folder, *more, **variables):
        return self.begin(ranks, SCRIPT, what, self.path(folder), *more, program=self.python, WORKBENCH_DB=self.path("x.db"),
                          **variables)

    def found(self, folder, rank):
        with open(self.path(f"{folder}-{rank}.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_the_results_of_one_process_on_every_rank(self):
        """Several trainings of one script, errors between them, which all ranks can catch."""
        alone = subprocess.run([self.python, SCRIPT, "all_kinds", self.path("one")], capture_output=True, text=True, timeout=300,
                               env={**os.environ, "WORKBENCH_DB": self.path("x.db")})
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertEqual(self.run_ranks(3, "all_kinds", "three", "refusals"), "")
        one, ranks = self.found("one", 0), [self.found("three", rank) for rank in range(3)]
        self.assertIn("pruned", str(one["first"]["table"]))
        for key in ("first", "many", "longer"):
            for rank in ranks:
                self.assertEqual(rank[key], one[key], (key, rank["rank"]))
        wait = "got 3 ranks, expected one process, as the run waits for Python at each evaluation; try it without mpirun"
        said = ranks[0]["refused"]
        self.assertEqual(said["callbacks"], f"[train] callbacks: {wait}")
        self.assertEqual(said["augment"], f"[train] augment: {wait}")
        self.assertIn("ranks: got 3, expected one process; try it without mpirun", said["no_save"])
        self.assertEqual(said["few"], "[train] ranks: got 3 for 2 models, expected no more than there are; try mpirun -n 2")
        self.assertIn("factory: got int, expected an nn.Module", said["factory"])
        for rank in ranks[1:]:
            self.assertEqual(rank["refused"], said)
        self.assertFalse(os.path.exists(self.path("three/r")))

    def test_programs_that_work_alone_know_of_no_launcher(self):
        """`workbench predict` of the second task of srun would keep its errors to itself."""
        given = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "PMI_RANK": "1", "PMIX_RANK": "1", "OMPI_COMM_WORLD_RANK": "1",
                 "HOME": "/"}
        script = f"from nwide.training import ranks; print(ranks.without_launcher({given}))"
        said = subprocess.run([self.python, "-c", script], capture_output=True, text=True, timeout=120)
        self.assertEqual(said.stdout.strip(), "{'HOME': '/'}", said.stderr)

    def test_the_program_is_told_whether_its_cores_were_chosen(self):
        """WORKBENCH_RANK holds rank, size, ranks on the machine, place among them, whether the user bound the cores, socket."""
        for given, bound in (({"OMPI_COMM_WORLD_SIZE": "2"}, 0), ({"PMIX_RANK": "1"}, 1),
                             ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_MCA_hwloc_base_binding_policy": "core"}, 1)):
            script = (f"import os; os.environ.update({given}); from nwide.training import ranks; r = ranks.Ranks(); r.size = 2; "
                      "print(r.starts()[0])")
            said = subprocess.run([self.python, "-c", script], capture_output=True, text=True, timeout=120)
            self.assertRegex(said.stdout, rf"^{{'WORKBENCH_RANK': '\d,\d,\d,\d,{bound},\d+'}}$", said.stderr)

    def test_an_error_ends_all_and_is_said_once(self):
        text = self.run_ranks(2, "one_fails_alone", "run", expect=1)
        self.assertEqual(text.count("ValueError: of rank 1"), 1, text)
        text = self.run_ranks(3, "trains", "run", "-1", expect=1)
        self.assertEqual(text.count("Error: ["), 1, text)
        self.assertIn("epochs", text)

    def test_without_the_plugin_it_is_one_error(self):
        site = subprocess.run([self.python, "-c", "import nwide; print(nwide.__path__[0])"], capture_output=True, text=True,
                              timeout=120).stdout.strip()
        shutil.copytree(site, self.path("site/nwide"), ignore=shutil.ignore_patterns("workbench_mpi.so", "workbench_cuda.so"))
        for name in ("nwide_program.py", "nwide.libs"):
            os.symlink(os.path.join(os.path.dirname(site), name), self.path(f"site/{name}"))
        text = self.run_ranks(2, "trains", "run", "1", expect=1, PYTHONPATH=self.path("site"))
        line = "[mpi] plugin: got none in this package, expected workbench_mpi.so, as it was started by mpirun or srun; "
        self.assertEqual(text.count(line), 1, text)
        self.assertFalse(os.path.exists(self.path("run")))

    def test_a_process_in_which_mpi_has_begun_is_refused(self):
        text = self.run_ranks(2, "beside_mpi4py", "run", expect=1)
        line = "[mpi] plugin: got mpi4py, which has begun MPI in this process, expected a process that has not; try a script without"
        self.assertEqual(text.count(line), 1, text)


if __name__ == "__main__":
    unittest.main()
