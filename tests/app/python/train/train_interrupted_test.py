"""Runs of `nw.train` that are interrupted, go on, and are told by the command; runs of the command from Python."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import contextlib  # noqa: E402
import json  # noqa: E402
import shutil  # noqa: E402
import signal  # noqa: E402
import subprocess  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
import unittest  # noqa: E402

import nwide_program  # noqa: E402
import pandas  # noqa: E402
import torch  # noqa: E402
from separate_runs import Net, Runs, rows  # noqa: E402

import nwide as nw  # noqa: E402

OPTIONS = {"validation": 0.25, "lr": [1e-3, 1e-2], "seeds": 2, "order": "sequential", "metrics": ["accuracy"], "dtype": "f64"}


class Cities(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.city = torch.nn.Embedding(3, 2)
        self.a = torch.nn.Linear(3, width)
        self.b = torch.nn.Linear(width, 1)

    def forward(self, x, city):
        return self.b(torch.tanh(self.a(torch.cat([x, self.city(city)], 1))))[:, 0]


def cities():
    x, _ = rows(40)
    frame = pandas.DataFrame({"age": x[:, 0].numpy(), "city": [("rome", "oslo", "bern")[i % 3] for i in range(40)]})
    return frame.assign(y=frame["age"] + (frame["city"] == "oslo"))


class Interrupted(Runs):
    def command(self, *arguments, expect=0):
        path, environment = nwide_program.program()
        done = subprocess.run([path, *arguments], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stdout

    def interrupt_at(self, line):
        """Ctrl-C once the program has printed a line that begins so."""
        from nwide.training import program

        say, threads = program.Tell.__call__, []

        def tell(tell, text):
            if text.startswith(line) and not threads:
                threads.append(threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)))
                threads[0].start()
            return say(tell, text)

        program.Tell.__call__ = tell
        self.addCleanup(setattr, program.Tell, "__call__", say)

    def interrupt_starts(self, which=lambda arguments: True):
        """Ctrl-C in the first moments of programs with these arguments."""
        from nwide.training import program

        started = subprocess.Popen

        def start(arguments, **named):
            child = started(arguments, **named)
            if which(arguments):
                threading.Timer(0.03, os.kill, (os.getpid(), signal.SIGINT)).start()
            return child

        program.subprocess.Popen = start
        self.addCleanup(setattr, program.subprocess, "Popen", started)

    def test_saves_returns_and_goes_on(self):
        whole = self.train(Net, data=rows(), epochs=3000, save="whole", **OPTIONS).table
        self.interrupt_at("epoch 5 ")
        run = self.train(Net, data=rows(), epochs=3000, **OPTIONS)
        self.assertEqual(run.state, "interrupted")
        self.assertEqual(set(run.table["status"]), {"interrupted"})
        self.assertLess(run.table["step"][0], 3000 * 3)
        self.assertEqual(run.models[1](torch.zeros(2, 5, dtype=torch.float64)).shape, (2, 3))
        run.resume(quiet=True)
        self.assertEqual(run.state, "complete")
        for column in ("lr", "seed", "status", "step", "best_step"):
            self.assertEqual(list(run.table[column]), list(whole[column]))
        for column in ("loss", "accuracy", "train_loss"):
            for own, other in zip(run.table[column], whole[column]):
                self.assertAlmostEqual(own, other, delta=1e-9)

    def test_of_several_runs_the_later_ones_do_not_begin(self):
        self.interrupt_at("epoch 5 ")
        run = self.train(Net, data=rows(), epochs=3000, batch=[8, 16], **OPTIONS)
        self.assertEqual((len(run.parts), run.state), (1, "interrupted"))
        self.assertEqual(sorted(os.listdir(self.path("run"))), ["0", "python"])

    def same(self, run, whole):
        for column in ("batch", "lr", "seed", "status", "step", "best_step"):
            self.assertEqual(list(run.table[column]), list(whole[column]))
        for own, other in zip(run.table["loss"], whole["loss"]):
            self.assertAlmostEqual(own, other, delta=1e-9)

    def test_those_that_did_not_begin_do_when_it_goes_on(self):
        options = {**OPTIONS, "epochs": 1500, "batch": [8, 16, 20], "exact": True}
        whole = self.train(Net, data=rows(), save="whole", **options).table
        self.interrupt_at("epoch 5 ")
        run = self.train(Net, data=rows(), **options)
        for one in (run, nw.open_run(self.path("run"), Net)):
            self.assertEqual((len(one), one.state), (4, "interrupted"))
            self.assertEqual(one.notes[-1], "wide runs that have no report yet: batch 16; batch 20")
        run.resume(quiet=True)
        self.assertEqual((len(run.parts), run.state), (3, "complete"))
        self.same(run, whole)
        self.interrupt_at("epoch 5 ")
        self.train(Net, data=rows(), overwrite=True, **options)
        self.interrupt_at("epoch 5 ")  # of the second
        again = nw.open_run(self.path("run"), Net).resume(quiet=True)
        self.assertEqual((len(again), again.state, again.notes[-1]), (8, "interrupted", "wide runs that have no report yet: batch 20"))
        os.remove(self.path("run/1/report.json"))  # as if it had been killed
        again = nw.open_run(self.path("run"), Net)
        self.assertEqual((len(again), again.state), (4, "interrupted"))
        self.same(again.resume(quiet=True), whole)
        self.same(nw.open_run(self.path("run"), Net), whole)

    def test_between_two_wide_runs(self):
        times = []

        def second(arguments):
            times.extend([1] if arguments[1] == "train" else [])
            return len(times) == 2

        self.interrupt_starts(second)
        options = {**OPTIONS, "epochs": 2, "batch": [8, 16], "exact": True, "metrics": {"f": lambda output, target: output.mean()}}
        run = self.train(Net, data=rows(), **options)
        self.assertEqual((len(run.parts), run.report["run"]["state"], run.state), (1, "complete", "interrupted"))
        self.assertEqual(sorted(os.listdir(self.path("run"))), ["0", "python"])
        again = nw.open_run(self.path("run"), Net)
        run.resume(quiet=True)
        whole = self.train(Net, data=rows(), save="whole", **options)
        self.same(run, whole.table)
        for f, of_whole in zip(run.table["f"], whole.table["f"], strict=True):
            self.assertAlmostEqual(f, of_whole, delta=1e-6)  # of predictions, which no option makes exact
        shutil.rmtree(self.path("run/1"))
        again.resume(epochs=4, threads=1, quiet=True)
        self.same(again, self.train(Net, data=rows(), save="longer", **{**options, "epochs": 4}).table)
        self.assertEqual(again.notes[-1], "f is a function of Python: the steps since 0 were made without it")

    def test_before_the_program_takes_it(self):
        run = self.train(Net, data=rows(), epochs=2, **OPTIONS)
        self.interrupt_starts()
        for call in (lambda: self.train(Net, data=rows(), epochs=3000, save="other", **OPTIONS), lambda: run.best(1).predict(rows()[0])):
            with self.assertRaises(KeyboardInterrupt):
                call()
        self.assertFalse(os.path.exists(self.path("other")))
        self.assertEqual(run.resume(epochs=3000, quiet=True).report["run"]["step"], 4)

    def test_the_command_takes_it(self):
        run = self.train(Net, data=rows(), epochs=2, **OPTIONS)
        said = self.command("train", "--resume", self.path("run"), "--epochs", "4", "--no-store")
        self.assertIn("step 8 of 8", said)
        again = nw.open_run(self.path("run"), Net)
        self.assertEqual(list(again.table["step"]), [8] * 4)
        self.assertEqual(list(run.table["step"]), [4] * 4)
        self.assertIn("lr=0.01", self.command("report", self.path("run"), "--by", "lr"))
        self.train(Net, data=rows(), epochs=4, save="other", **OPTIONS)
        self.assertIn("SAME", self.command("compare", self.path("run"), self.path("other")).upper())

    def test_killed_and_gone_on_with_by_the_command(self):
        """What Python alone knows of a run is there while it runs: the factory's arguments, codes of words, metrics of its own."""
        self.train(Net, data=rows(), epochs=1, **OPTIONS)

        def state():
            with contextlib.suppress(FileNotFoundError):
                return os.stat(self.path("run/run.safetensors")).st_mtime_ns

        before = state()
        code = ("import nwide as nw, sys; sys.path[:0] = sys.argv[1:3]; from train_interrupted_test import Cities, cities; "
                "nw.train(Cities, data=cities(), target='y', column={'x': ['age'], 'city': 'city'}, net={'width': 9}, "
                "metrics={'f': lambda output, target: 0.0}, validation=0.25, lr=[1e-3, 1e-2], epochs=2000, save=sys.argv[3], "
                "overwrite=True, no_store=True)")
        folders = os.path.dirname(os.path.abspath(__file__)), os.path.dirname(package.__file__), self.path("run")
        child = subprocess.Popen([sys.executable, "-c", code, *folders], stdout=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        while state() in (None, before):
            time.sleep(0.01)
            self.assertIsNone(child.poll())
        with open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="utf-8") as file:
            program = int(file.read())
        os.kill(child.pid, signal.SIGKILL)
        os.kill(program, signal.SIGKILL)
        child.wait()
        self.command("train", "--resume", self.path("run"), "--quiet")
        run, given = nw.open_run(self.path("run"), Cities), cities().drop(columns="y")
        self.assertEqual((run.state, run.models[1].a.out_features), ("complete", 9))
        self.assertEqual(run.notes[-1], "f is a function of Python: the steps since 0 were made without it")
        codes = torch.tensor([["bern", "oslo", "rome"].index(city) for city in given["city"]])
        with torch.no_grad():
            expected = run.models[0](torch.tensor(given["age"]).float()[:, None], codes)
        best = run.best(2)
        found = best.predict(given, reduce="none")[best.indices.index(0)]
        self.assertLess((found - expected).abs().max().item(), 1e-5)
        self.assertTrue(set(run.ensemble(2).indices) <= {0, 1})

    def test_runs_of_the_command(self):
        x, y = rows()
        program = torch.export.export(Net().double(), (x[:4],), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
        torch.export.save(program, self.path("net.pt2"))
        from nwide.training import tensor_files

        tensor_files.save(self.path("data.safetensors"), {"images": x, "label": y})
        self.command("train", self.path("net.pt2"), "--data", self.path("data.safetensors"), "--column", "x=images", "-n",
                     "3", "--lr",
                     "log:1e-3..1e-1", "--validation", "0.25", "--epochs", "2", "--save", self.path("run"), "--no-store", "--init", "file")
        run = nw.open_run(self.path("run"), Net)
        self.assertEqual(list(run.table["lr"]), [1e-3, run.table["lr"][1], 1e-1])
        with torch.no_grad():
            each = torch.stack([run.models[i].double()(x).softmax(1) for i in run.best(2).indices])
        self.assertLess((run.best(2).predict(x, reduce="none") - each).abs().max().item(), 1e-9)
        self.refused("[ensemble] rows: got a run without the same validation rows for all models, or not begun in Python, expected "
                     "rows to choose models by; try nw.train(..., validation=0.2)", lambda: run.ensemble(2))
        self.refused("[open_run] models: got no class, expected the class or factory of the run's models; try "
                     "nw.open_run('runs/a', Net)", lambda: nw.open_run(self.path("run")).models[0])

    def test_the_store(self):
        db = self.path("results.db")
        nw.train(Net, data=rows(), save=self.path("run"), name="first", db=db, quiet=True, epochs=2, **OPTIONS)
        runs = nw.open(db).runs()
        self.assertEqual(list(runs["name"]), ["first"])
        self.assertEqual((runs["n"][0], runs["state"][0], runs["folder"][0]), (4, "complete", self.path("run")))

    def test_without_a_folder(self):
        run = nw.train(Net, data=rows(), no_save=True, no_store=True, quiet=True, epochs=2, **OPTIONS)
        self.assertEqual(len(run.table), 4)
        for call in (lambda: run.models[0], lambda: run.best(1).predict(rows()[0])):
            with self.assertRaisesRegex(nw.Error, "got a run that saved nothing, expected its folder; try a run without no_save=True"):
                call()

    def test_save_false_is_no_save(self):
        os.mkdir(self.path("here"))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.path("here"))
        run = nw.train(Net, data=rows(), save=False, no_store=True, quiet=True, epochs=2, **OPTIONS)
        self.assertEqual(os.listdir("."), [])
        self.assertRaisesRegex(nw.Error, "got a run that saved nothing", lambda: run.models[0])
        run = nw.train(Net, data=rows(), save=False, no_store=True, quiet=True, epochs=1, batch=[8, 16], seeds=2)
        self.assertEqual((os.listdir("."), len(run.table)), ([], 4))

    def test_says_what_it_does(self):
        code = ("import nwide as nw, sys; sys.path.insert(0, sys.argv[1]); from separate_runs import Net, rows; "
                "nw.train(Net, data=rows(), seeds=2, epochs=2, batch=[8, 16], save=sys.argv[2], no_store=True)")
        done = subprocess.run([sys.executable, "-c", code, os.path.dirname(package.__file__), self.path("run")],
                              capture_output=True, text=True)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "2 wide runs, one after the other: batch 8, 16", done.stderr)
        self.assertEqual(len([line for line in lines if line.startswith("epoch ")]), 4)
        self.assertEqual(done.stderr, "")
        with open(self.path("run/0/report.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["run"]["name"], "Net batch=8")

    def test_progress(self):
        code = ("import nwide as nw, sys; sys.path.insert(0, sys.argv[1]); from separate_runs import Net, rows; "
                "from nwide import progress; progress._watched = lambda: True; "
                "nw.train(Net, data=rows(), seeds=2, epochs=2, save=sys.argv[2], no_store=True)")
        done = subprocess.run([sys.executable, "-c", code, os.path.dirname(package.__file__), self.path("run")],
                              capture_output=True, text=True)
        self.assertNotIn("epoch 1 ", done.stdout)
        self.assertIn("2/4", done.stderr)


if __name__ == "__main__":
    unittest.main()
