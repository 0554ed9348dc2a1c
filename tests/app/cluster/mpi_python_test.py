"""nw.train in a script that mpirun starts: every rank gets the run of one process."""
import json
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in (os.path.join(HERE, "..", "python"), os.path.join(HERE, "..")):
    sys.path.insert(0, folder)
import package
from command_line import CommandLine
from ranks import ENVIRONMENT, MPIRUN, WHY_NOT

SCRIPT = '''
import json, os, sys
import torch
from torch import nn
import nwide as nw

def net(width=7):
    return nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Dropout(0.2), nn.Linear(width, 3))

def accuracy(output, target):
    return (output.argmax(-1) == target).double().mean()

rank, folder, what = os.environ.get("OMPI_COMM_WORLD_RANK", "alone"), sys.argv[1], sys.argv[2]
torch.manual_seed(3)
x, y = torch.randn(90, 6), torch.randint(0, 3, (90,))
more = {"epochs": 6, "batch": 16}
if what == "stops":
    more["lr"] = 1e-3, "a word"
if what == "factory" and rank in ("0", "alone"):
    net = lambda width=7: 1 / 0
if what == "callbacks":
    more["callbacks"] = [print]
if what == "mpi4py":
    sys.modules["mpi4py.MPI"] = sys
if what == "many":
    more["net"] = {"width": [5, 7]}
try:
    run = nw.train(net, data=(x, y), validation=0.2, loss="cross_entropy", seeds=3, threads=1, exact=True, dtype="f64",
                   db=folder + "/results.db", save=folder + "/run-" + ("alone" if rank == "alone" else "ranks"), overwrite=True,
                   metrics={"own": accuracy}, **{"lr": [1e-3, 1e-2, 3e-2], **more})
    if what == "again":
        run.resume(epochs=7)
    said = {"table": run.table.to_dict("list"), "best": run.best(2).indices, "n": len(run.models),
            "own": [v.tolist() for v in run.best(3).predict(x[:4].double())],
            "weights": [p.tolist() for m in run.models for p in m.parameters()]}
except Exception as error:
    said = {"error": type(error).__name__ + ": " + str(error)}
with open(os.path.join(folder, "said-" + rank), "w") as file:
    json.dump(said, file)
'''


@unittest.skipIf(WHY_NOT, WHY_NOT)
class MpiPython(CommandLine):
    @classmethod
    def setUpClass(cls):
        cls.python = package.built()

    def said(self, what, ranks=0):
        script = self.path("script.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        command = [self.python, script, self.folder, what]
        if ranks:
            command = [MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.printed = done.stdout
        found = []
        for name in map(str, range(ranks)) if ranks else ["alone"]:
            with open(self.path(f"said-{name}"), encoding="utf-8") as file:
                found.append(json.load(file))
            os.remove(self.path(f"said-{name}"))
        return found

    def test_the_run_of_one_process(self):
        alone, = self.said("trains")
        self.assertNotIn("error", alone, alone.get("error"))
        self.assertEqual(alone["n"], 9)
        ranks = self.said("trains", 3)
        self.assertEqual([one.get("error") for one in ranks], [None] * 3)
        for one in (alone, *ranks):
            for column in [c for c in one["table"] if "second" in c or c == "run"]:
                del one["table"][column]
        for one in ranks:
            self.assertEqual(one, alone)
        self.assertIn("of 9, which 3 ranks train", self.printed)
        self.assertEqual([name for name in os.listdir(self.folder) if ".ranks-" in name], [])

    def test_errors_are_those_of_every_rank(self):
        for what, message in {"stops": "Error: [train] lr: got", "factory": "division by zero",
                              "many": "Error: [train] ranks: got 2 wide runs for 2 ranks, expected one",
                              "mpi4py": "Error: [train] ranks: got mpi4py, which has begun MPI in this process, expected a process",
                              "callbacks": "Error: [train] callbacks: got what Python answers at each evaluation, on 2 ranks"}.items():
            said = self.said(what, 2)
            for one in said:
                self.assertIn(message, one.get("error", ""), what)
            self.assertFalse(os.path.exists(self.path("run-ranks")), what)
        for one in self.said("again", 2):
            self.assertIn("Error: [train] ranks: got a second run in what mpirun started, expected one", one.get("error", ""))


if __name__ == "__main__":
    unittest.main()
