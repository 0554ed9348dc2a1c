"""The explorer in a real window: a person's first session as clicks and keys, checked against the store."""

import csv
import os
import random
import signal
import sqlite3
import struct
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree as xml

import screen


class Window(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.display = screen.Display()
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.display.process.terminate()
        cls.display.process.wait()
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def drive(self, script, *arguments):
        run = screen.explorer("--db", self.path("results.db"), "--size", "1280x800", *arguments,
                              script=script, display=self.display.name,
                              env={"XDG_CONFIG_HOME": self.path("config"),
                                   "XDG_CACHE_HOME": self.path("cache")})
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stderr[-3000:])

    def query(self, sql, *values):
        with sqlite3.connect(self.path("results.db")) as store:
            return store.execute(sql, values).fetchall()

    def test_a_first_session(self):
        # Start, choose ci, run three targets of it, see points appear, select one, read its reason.
        self.drive(f"""
            await Nothing has been measured yet
            click preset
            click ci
            settle
            click None
            click find a target
            type prelu
            click prelu
            press Ctrl+A
            settle
            click find a target
            press Ctrl+A
            type linear
            click linear
            click N
            type 1,2,3
            click seconds a trial
            press Ctrl+A
            type 0.02
            settle
            expect 6 cases
            click Start
            await of 6 cases
            await-long complete: 6 cases
            settle
            click linear N=3
            settle
            await linear /
            expect To measure it again
            click filter
            type target:linear n>=2
            settle
            click over loop
            settle
            click Save CSV
            press Ctrl+A
            type {self.path("rows.csv")}
            click Save
            await wrote
            click Speedup
            settle
            click Export
            click Plot as SVG
            press Ctrl+A
            type {self.path("plot.svg")}
            click Save
            await plot.svg
            click Export
            click Plot as PNG
            press Ctrl+A
            type {self.path("plot.png")}
            click Save
            await plot.png
            settle
            click Export
            click Sweep as json
            press Ctrl+A
            type {self.path("sweep.json")}
            click Save
            await sweep.json
            report {self.path("times.json")}
        """)
        rows = self.query("""SELECT strategy, n, vs_loop, median_ns FROM trial JOIN "case" ON trial."case" = "case".id
                             JOIN timing ON timing.trial = trial.id WHERE target = 'linear' AND n >= 2""")
        self.assertGreater(len(rows), 5)
        with open(self.path("rows.csv"), encoding="utf-8") as file:
            table = list(csv.DictReader(file))
        self.assertEqual({(r["strategy"], int(r["n"])): (float(r["loop"]), float(r["time_ns"])) for r in table},
                         {(s, n): (loop, ns) for s, n, loop, ns in rows})
        loops = [float(r["loop"]) for r in table]
        self.assertEqual(loops, sorted(loops, reverse=True))
        with open(self.path("plot.svg"), encoding="utf-8") as file:
            plot = xml.parse(file)
        marks = [g for g in plot.iter("{http://www.w3.org/2000/svg}g") if g.get("data-kind") == "point"]
        drawn = self.query("""SELECT count(*) FROM trial JOIN "case" ON trial."case" = "case".id
                              WHERE target = 'linear' AND status = 'ok'""")[0][0]
        self.assertEqual(len(marks), 2 * drawn)  # once with its speedup, once with its error
        with open(self.path("plot.png"), "rb") as file:
            self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")
        self.assertEqual(len(screen.read_json(self.path("sweep.json"))["cases"]), 6)
        times = screen.read_json(self.path("times.json"))
        self.assertEqual(times["gl_errors"], 0)
        # Every case knows whether the window drew while it was timed.
        self.assertEqual(self.query('SELECT count(*) FROM "case" WHERE more ->> \'window_frames\' >= 0'), [(6,)])

        # Closed and opened again: all of it is there, and what was set is as it was left.
        self.drive("""
            settle
            expect sweep 1 · ci
            expect target:linear n>=2
            click Undo
            settle
            click trial 1
            settle
            expect To measure it again
        """)

    def start_sweep(self, store, last):
        """A window that runs linear at eight Ns; returns its process once two cases are stored."""
        script = self.path("script")
        with open(script, "w", encoding="utf-8") as file:
            file.write("settle\nclick None\nclick linear\nclick seconds a trial\npress Ctrl+A\ntype 0.4\n"
                       f"click N\ntype 1,2,3,4,5,6,7,8\nsettle\nclick Start\nawait-long {last}\n")
        environment = {**os.environ, "DISPLAY": self.display.name, "LIBGL_ALWAYS_SOFTWARE": "1",
                       "XDG_CONFIG_HOME": self.path("config2"), "XDG_CACHE_HOME": self.path("cache"),
                       "OMP_WAIT_POLICY": "passive"}
        window = subprocess.Popen([screen.BINARY, "--db", store, "--size", "1280x800", "--script", script],
                                  env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        done = 0
        for _ in range(600):
            time.sleep(0.1)
            if os.path.exists(store):
                with sqlite3.connect(store) as db:
                    tables = db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'case'").fetchone()[0]
                    done = tables and db.execute("SELECT count(*) FROM \"case\" WHERE state = 'done'").fetchone()[0]
            if done >= 2:
                break
        self.assertGreaterEqual(done, 2)
        return window

    def rows(self, store):
        with sqlite3.connect(store) as db:
            return set(db.execute("""SELECT n, strategy, status, median_ns FROM trial JOIN "case" ON trial."case" = "case".id
                                     LEFT JOIN timing ON timing.trial = trial.id WHERE state = 'done'"""))

    def test_a_killed_worker_loses_nothing(self):
        store = self.path("worker.db")
        window = self.start_sweep(store, "complete: 8 cases")
        before = self.rows(store)
        with open(f"/proc/{window.pid}/task/{window.pid}/children", encoding="ascii") as file:
            children = [int(pid) for pid in file.read().split()]
        for task in os.listdir(f"/proc/{window.pid}/task"):
            with open(f"/proc/{window.pid}/task/{task}/children", encoding="ascii") as file:
                children += [int(pid) for pid in file.read().split()]
        self.assertTrue(children)
        for pid in set(children):
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(window.wait(timeout=120), 0)
        after = self.rows(store)
        self.assertEqual(before - after, set())
        self.assertEqual({row[0] for row in after}, set(range(1, 9)))
        # Killed like this is what a machine without memory does. One case was hit at most; the
        # others are as they would have been.
        self.assertLessEqual({row[2] for row in after}, {"ok", "unsupported", "crashed", "oom"})
        self.assertLessEqual(len({row[0] for row in after if row[2] in ("crashed", "oom")}), 1)

    def test_a_killed_window_loses_nothing_and_resumes(self):
        store = self.path("killed.db")
        window = self.start_sweep(store, "no such text")
        before = self.rows(store)
        window.kill()
        window.wait()
        run = screen.explorer("--db", store, "--size", "1280x800", display=self.display.name, script="""
            settle
            await interrupted
            click Resume
            await-long complete: 8 cases
            settle
        """, env={"XDG_CONFIG_HOME": self.path("config2"), "XDG_CACHE_HOME": self.path("cache")})
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stderr[-2000:])
        self.assertEqual(before - self.rows(store), set())
        with sqlite3.connect(store) as db:
            self.assertEqual(db.execute("SELECT count(*) FROM sweep").fetchone()[0], 1)
            self.assertEqual(db.execute("SELECT count(*) FROM \"case\" WHERE state = 'done'").fetchone()[0], 8)

    def test_a_killed_training_goes_on_by_a_click(self):
        store, run, data, steps = self.path("training.db"), self.path("run"), self.path("data.csv"), 600
        values = random.Random(1)
        with open(data, "w", encoding="utf-8") as file:
            file.write(",".join([f"x{i}" for i in range(64)] + ["y"]) + "\n")
            for _ in range(100):
                x = [values.gauss(0, 1) for _ in range(64)]
                file.write(",".join([f"{v:.4f}" for v in x] + [str(int(x[0] > x[1]))]) + "\n")
        training = subprocess.Popen(
            [screen.BINARY, "train", "mlp", "--data", data, "--target", "y", "-n", "3", "--validation", "0.2",
             "--steps", str(steps), "--eval-every", "10", "--save-every", "10", "--check", "0", "--save", run,
             "--db", store, "--quiet"], env={**os.environ, "OMP_WAIT_POLICY": "passive"})

        def losses():
            with sqlite3.connect(store, timeout=60) as db:
                return db.execute("SELECT model, step, value FROM run_metric WHERE metric = 'loss' ORDER BY 1, 2").fetchall()

        deadline = time.monotonic() + 240
        while not (os.path.exists(os.path.join(run, "run.safetensors")) and len(losses()) > 6):
            self.assertLess(time.monotonic(), deadline, "no evaluation was stored")
            self.assertIsNone(training.poll())
            time.sleep(0.02)
        training.kill()
        training.wait()
        before = losses()
        self.assertLess(before[-1][1], steps, "it ended before it was killed")
        shown = screen.explorer("--db", store, "--size", "1280x800", display=self.display.name, script=f"""
            show trainings
            show training
            await interrupted
            settle
            expect Resume run
            click Resume run
            await goes on
            await-long complete
            settle
            expect 3 of 3 models shown
            picture {self.path("resumed.png")}
        """, env={"XDG_CONFIG_HOME": self.path("config3"), "XDG_CACHE_HOME": self.path("cache")}, timeout=560)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""), shown.stderr[-2000:])
        after = losses()
        self.assertEqual([row[:2] for row in after], [(m, s) for m in range(3) for s in range(10, steps + 1, 10)])
        self.assertEqual(set(before) - set(after), set())  # the same run with the same numbers
        with sqlite3.connect(store) as db:
            self.assertEqual(db.execute("SELECT state FROM run").fetchall(), [("complete",)])

    def test_a_fusion_is_taken_home(self):
        exported = self.path("wide.ts")
        self.drive(f"""
            show fuse
            click network
            type mlp
            click models
            press Ctrl+A
            type 2,3
            click Fuse
            await mlp · N=2,3
            settle
            click Timeline
            settle
            expect wide: one call for N=3
            click bar model 1
            expect model 1 ·
            click Fit wide
            settle
            click bar wide::*
            expect of one model's program, module
            picture {self.path("timeline.png")}
            click Along N
            settle
            hover wide N=3
            expect over
            click Save plot
            click Plot as SVG
            press Ctrl+A
            type {self.path("fusion.svg")}
            click Save
            await wrote {self.path("fusion.svg")}
            click Export
            press Ctrl+A
            type {exported}
            click Save
            await wrote {exported}
        """)
        self.assertGreater(os.path.getsize(exported), 100)
        with open(self.path("fusion.svg"), encoding="utf-8") as file:
            self.assertIn("speedup over the best baseline", file.read())

    def test_what_crashes_hangs_and_is_wrong_appears_as_such(self):
        store, times = self.path("faults.db"), self.path("faults.json")
        run = screen.explorer(
            "explorer", "--db", store, "--size", "1280x800", display=self.display.name,
            binary=os.path.join(os.path.dirname(screen.BINARY), "workbench_tests"),
            env={"WORKBENCH_PLANT_WINDOW": "1", "XDG_CONFIG_HOME": self.path("config4"),
                 "XDG_CACHE_HOME": self.path("cache")}, script=f"""
            settle
            click None
            click a_window
            click seconds a trial
            press Ctrl+A
            type 0.05
            click seconds of silence
            type 3
            settle
            reset-times
            click Start
            await of 1 cases
            click Speedup
            await-long complete: 1 cases
            settle
            await aborts at N=3 is not drawn: crashed
            click incorrect wrong N=3
            settle
            expect incorrect
            click filter
            type hangs
            settle
            click trial 1
            settle
            expect timeout
            expect got no end after
            click Overview
            settle
            expect ✗ 1 of 1
            click Clear filter
            settle
            expect ✗ 3 of 6
            report {times}
        """)
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stderr[-3000:])
        with sqlite3.connect(store) as db:
            self.assertEqual(dict(db.execute("SELECT strategy, status FROM trial")),
                             {"good": "ok", "wrong": "incorrect", "aborts": "crashed", "hangs": "timeout",
                              "vmap": "ok", "per_model": "ok"})
        self.assertEqual(screen.read_json(times)["gl_errors"], 0)


class Scale(unittest.TestCase):
    """A monitor with twice the usual dots an inch."""

    def test_a_window_opens_as_large_as_it_was_left_and_as_large_as_asked(self):
        with tempfile.TemporaryDirectory() as folder:
            display = screen.Display(size="2800x1700")
            display.set_scale(2)
            picture = os.path.join(folder, "window.png")

            def opened(*arguments, more=""):
                run = screen.explorer("explorer", "--db", os.path.join(folder, "none.db"), *arguments,
                                      script=f"settle\n{more}\npicture {picture}", display=display.name,
                                      env={"XDG_CONFIG_HOME": folder})
                self.assertEqual((run.returncode, run.stderr), (0, ""))
                with open(picture, "rb") as file:
                    return struct.unpack(">II", file.read(24)[16:])

            with display:
                self.assertEqual(opened(), (2560, 1600))  # 1280x800 in the monitor's units
                self.assertEqual(opened(), (2560, 1600))
                self.assertEqual(opened("--size", "1800x1000"), (1800, 1000))
                self.assertEqual(opened(), (1800, 1000))
                opened(more="resize 4000x3000")
                self.assertEqual(opened(), (2800, 1700))  # all of the monitor


class NoWindow(unittest.TestCase):
    def refused(self, pattern, *arguments, **more):
        run = screen.explorer(*arguments, **more)
        self.assertEqual(run.returncode, 6, run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertRegex(run.stderr, pattern)

    def test_no_display(self):
        self.refused(r"^\[explorer\] display: got none .*expected a desktop; try")
        self.refused(r"^\[explorer\] display: got ", display=":4711")

    def test_few_colours(self):
        with screen.Display(depth=8) as name:
            self.refused(r"^\[explorer\] (window|OpenGL|display): got ", display=name)

    def test_headless_commands_know_no_window(self):
        needed = subprocess.run(["readelf", "-d", screen.BINARY], capture_output=True, text=True, check=True).stdout
        self.assertNotRegex(needed, r"libglfw|libGL|libEGL|libX11")


if __name__ == "__main__":
    unittest.main()
