"""The store as scripts see it: sweeps kept, listed, resumed after any kill, exported; failures in one line.

With arguments: store_test.py --kills 50 kills that many sweeps, at random moments.
"""
import ctypes
import json
import os
import random
import re
import resource
import sqlite3
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from folder import InFolder

BINARY = os.environ["WORKBENCH_BINARY"]
SWEEP = ["sweep", "ci", "--targets", "linear", "--axis", "linear.B=3", "-n", "1,2,3", "--budget", "0.02"]
KILLS = 6


def workbench(*arguments, **more):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=300, **more)


def rows(db, sql, *values):
    connection = sqlite3.connect(db, timeout=30)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def obey_permissions():
    """Root writes everywhere unless the program is started without that capability."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


class Folder(InFolder):
    def setUp(self):
        super().setUp()
        self.db = self.path("results.db")

    def run_well(self, *arguments):
        run = workbench(*arguments)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def refused(self, exit_code, pattern, *arguments, **more):
        run = workbench(*arguments, **more)
        self.assertEqual(run.returncode, exit_code, run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertRegex(run.stderr, pattern)


class Kept(Folder):
    def test_a_sweep_is_kept_and_found(self):
        report = self.path("r.json")
        out = self.run_well(*SWEEP, "--db", self.db, "--json", report, "--name", "mine")
        self.assertRegex(out.splitlines()[0], r"3 cases, .*; stored as sweep 1$")
        with open(report, encoding="utf-8") as file:
            data = json.load(file)
        self.assertEqual(data["sweep"]["id"], "1")
        self.same_numbers(data)
        listed = json.loads(self.run_well("list", "sweeps", "--json", "--db", self.db))["sweeps"]
        self.assertEqual([(s["id"], s["name"], s["state"], s["cases"], s["done"]) for s in listed],
                         [("1", "mine", "complete", 3, 3)])
        self.assertIn("mine", self.run_well("list", "sweeps", "--db", self.db))
        self.assertEqual(json.loads(self.run_well("info", "--json", "--db", self.db))["store"]["sweeps"], 1)

        self.run_well("reference", "set", "base", "mine", "--db", self.db)
        self.assertRegex(self.run_well("reference", "list", "--db", self.db), r"base +1 +mine")
        one = self.path("one.db")
        self.run_well("store", "export", "base", one, "--db", self.db)
        self.refused(2, rf"^\[{self.path('none/x.db')}\] folder: got none", "store", "export", "base",
                     self.path("none/x.db"), "--db", self.db)
        self.refused(1, r"^\[/proc/x.db\] .*; try another FILE.db$", "store", "export", "base", "/proc/x.db",
                     "--db", self.db)
        self.assertIn("imported 1", self.run_well("store", "import", one, "--db", self.path("o.db")))
        self.assertEqual(rows(one, "SELECT median_ns FROM timing ORDER BY id"),
                         rows(self.path("o.db"), "SELECT median_ns FROM timing ORDER BY id"))
        self.refused(2, r"^\[base\] sweep: got a reference's name, .*; try workbench store delete 1$",
                     "store", "delete", "base", "--db", self.db)
        self.assertEqual(self.run_well("reference", "set", "a\nb", "1", "--db", self.db), "a\\x0ab is sweep 1\n")
        self.assertEqual(len(self.run_well("reference", "list", "--db", self.db).splitlines()), 3)
        self.refused(1, "none.db. store: got no such file", "store", "import", self.path("none.db"), "--db",
                     self.path("new.db"))
        self.assertFalse(os.path.exists(self.path("new.db")))
        self.run_well("reference", "delete", "base", "--db", self.db)
        self.refused(2, "base.* got no such name", "reference", "delete", "base", "--db", self.db)
        self.refused(2, "got no such number or name", "store", "delete", "none", "--db", self.db)
        self.run_well("store", "delete", "last", "--db", self.db)
        self.assertEqual(rows(self.db, "SELECT count(*) FROM samples"), [(0,)])

    def same_numbers(self, data):
        """The tables, by another reader of SQLite, against the report."""
        found = rows(self.db, """
            SELECT c.n, coalesce(t.strategy, m.name), coalesce(t.status, 'baseline'), m.median_ns, s.ns, t.vs_loop,
                   k.max_rel, m.id
            FROM "case" AS c JOIN timing AS m ON m."case" = c.id JOIN samples AS s ON s.timing = m.id
            LEFT JOIN trial AS t ON t.id = m.trial LEFT JOIN correctness AS k ON k.trial = t.id ORDER BY m.id""")
        expected = []
        for case in data["cases"]:
            for t in case["baselines"]:
                expected.append((case["n"], t["name"], "baseline", t["median_ns"], t["samples_ns"], None, None))
            for t in case["trials"]:
                expected.append((case["n"], t["strategy"], t["status"], t["median_ns"], t["samples_ns"],
                                 t["speedup"]["vs_loop"]["value"], t["correctness"]["max_rel"]))
        self.assertEqual(len(found), len(expected))
        for row, right in zip(found, expected):
            samples = list(struct.unpack(f">{len(row[4]) // 8}d", row[4]))
            self.assertEqual(row[:4] + (samples,) + row[5:7], right)
            self.assertEqual([ns for (ns,) in rows(
                self.db, "SELECT ns FROM sample WHERE timing = ? ORDER BY position", row[7])], samples)

    def test_fusions_are_kept(self):
        report = self.path("f.json")
        self.run_well("fuse", "mlp", "-n", "2,3", "--budget", "0.02", "--db", self.db, "--json", report)
        listed = json.loads(self.run_well("list", "fusions", "--json", "--db", self.db))["fusions"]
        self.assertEqual([(f["id"], f["model"], f["n"]) for f in listed], [("1", "mlp", [2, 3])])
        with open(report, encoding="utf-8") as file:
            data = json.load(file)
        self.assertEqual(rows(self.db, "SELECT n, vs_loop FROM fuse_point ORDER BY n"),
                         [(p["n"], p["speedup"]["vs_loop"]) for p in data["curve"]])

    def test_what_was_disturbed_is_measured_again(self):
        self.refused(2, "--again requires --resume", *SWEEP, "--again", "disturbed", "--db", self.db)
        self.refused(2, "--again: all not in", *SWEEP, "--resume", "--again", "all", "--db", self.db)
        self.refused(2, "got no sweep of this name", *SWEEP, "--resume", "--again", "disturbed", "--db", self.db)
        self.run_well(*SWEEP, "--db", self.db, "--quiet")
        connection = sqlite3.connect(self.db)
        with connection:  # the middle one alone
            connection.execute("""UPDATE "case" SET more = json_set(more, '$.disturbed',
                                  json(iif(position = 1, 'true', 'false')))""")
        connection.close()
        before = rows(self.db, 'SELECT "case", id FROM trial ORDER BY 1, 2')
        out = self.run_well(*SWEEP, "--resume", "--again", "disturbed", "--db", self.db)
        self.assertRegex(out.splitlines()[0], "continues sweep 1, 2 cases are done")
        after = rows(self.db, 'SELECT "case", id FROM trial ORDER BY 1, 2')
        self.assertEqual({case for case, _ in set(after) - set(before)},
                         {rows(self.db, 'SELECT id FROM "case" WHERE position = 1')[0][0]})
        self.assertEqual(len(after), len(before))
        self.assertEqual(rows(self.db, "SELECT count(*), state FROM sweep"), [(1, "complete")])
        self.assertIn("disturbed cases again", rows(self.db, "SELECT changes FROM sweep")[0][0])

    def test_a_resumed_sweep_reports_how_it_was_started(self):
        self.run_well(*SWEEP, "--db", self.db, "--quiet", "--json", self.path("first.json"))
        time.sleep(1.1)  # dates are in seconds
        resume = ["--resume", "--again", "disturbed", "--top", "1", "--db", self.db, "--quiet"]
        self.run_well(*SWEEP, *resume, "--json", self.path("again.json"))
        self.run_well("report", "last", "--json", self.path("stored.json"), "--db", self.db)
        reports = []
        for name in ("first", "again", "stored"):
            with open(self.path(name + ".json"), encoding="utf-8") as file:
                report = json.load(file)
            reports.append((report["sweep"]["command"], report["environment"]))
        self.assertEqual(reports[1], reports[0])
        self.assertEqual(reports[2], reports[0])

    def test_nothing_is_kept_when_asked(self):
        self.run_well(*SWEEP, "--db", self.db, "--no-store", "--quiet")
        self.run_well("fuse", "mlp", "-n", "2", "--budget", "0.02", "--db", self.db, "--no-store", "--quiet")
        self.assertFalse(os.path.exists(self.db))
        self.assertEqual(json.loads(self.run_well("list", "sweeps", "--json", "--db", self.db)), {"sweeps": []})
        self.assertFalse(os.path.exists(self.db))

    def test_resume_refuses(self):
        more = ["1,2,3,4" if word == "1,2,3" else word for word in SWEEP]
        self.refused(2, "got no unfinished sweep of this name", *SWEEP, "--resume", "--db", self.db)
        self.refused(2, "excludes", *SWEEP, "--resume", "--no-store", "--db", self.db)
        self.run_well(*SWEEP, "--db", self.db, "--quiet")
        self.refused(2, "got no unfinished sweep", *SWEEP, "--resume", "--db", self.db)
        connection = sqlite3.connect(self.db)
        with connection:
            connection.execute("UPDATE sweep SET state = 'cancelled'")
        connection.close()
        self.refused(2, "resume: got --seed 3, expected 0", *SWEEP, "--seed", "3", "--resume", "--db", self.db)
        self.refused(2, "resume: got 4 cases, expected 3", *more, "--resume", "--db", self.db)
        out = self.run_well(*SWEEP, "--resume", "--db", self.db)
        self.assertRegex(out.splitlines()[0], "continues sweep 1, 3 cases are done")
        self.assertEqual(rows(self.db, "SELECT count(*), state FROM sweep"), [(1, "complete")])
        self.refused(2, "name: got 12", *SWEEP, "--name", "12", "--db", self.db)


class Failures(Folder):
    def test_files_that_are_no_store(self):
        text, newer = self.path("text.db"), self.path("newer.db")
        with open(text, "w", encoding="utf-8") as file:
            file.write("no database " * 500)
        connection = sqlite3.connect(newer)
        connection.executescript(f"PRAGMA application_id = {0x57494445}; PRAGMA user_version = 77; CREATE TABLE t(i)")
        connection.close()
        for command in (SWEEP, ["list", "sweeps"], ["reference", "list"]):
            self.refused(1, "got a file that is no database", *command, "--db", text)
            self.refused(1, "got schema 77, expected at most", *command, "--db", newer)
            self.refused(1, "got a folder", *command, "--db", self.folder)
        self.refused(1, "got no such folder", *SWEEP, "--db", self.path("none/x.db"))
        self.refused(1, "got no such file", "reference", "list", "--db", self.path("none.db"))

    def test_a_read_only_folder(self):
        self.run_well(*SWEEP, "--db", self.db, "--quiet")
        os.chmod(self.folder, 0o555)
        os.chmod(self.db, 0o444)
        self.addCleanup(os.chmod, self.folder, 0o755)
        for command in (SWEEP, ["reference", "set", "a", "last"]):
            self.refused(1, "got a read-only file or folder", *command, "--db", self.db, preexec_fn=obey_permissions)
        self.refused(1, "got a read-only file or folder", *SWEEP, "--db", self.path("new.db"), preexec_fn=obey_permissions)
        run = workbench("list", "sweeps", "--db", self.db, preexec_fn=obey_permissions)
        self.assertIn("complete", run.stdout, run.stderr)

    def test_a_limit_on_the_size_of_files_is_told_to_readers_too(self):
        """They write the index of the store's log."""
        self.run_well(*SWEEP, "--db", self.db, "--quiet")
        self.refused(1, r"^\[.*\] store: got the end of the file size that ulimit -f allows, 10 kB, expected", "report", "last",
                     "--db", self.db, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)))

    def test_a_full_disk_keeps_what_was_stored(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))

        run = workbench("sweep", "ci", "--targets", "linear", "-n", ",".join(map(str, range(1, 60))), "--budget",
                        "0.01", "--axis", "linear.B=3", "--db", self.db, preexec_fn=limit)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertRegex(run.stderr.splitlines()[-1], r"^\[.*\] store: got the end of the file size that ulimit -f allows, 600 kB")
        begun = re.findall(r"\[(\d+)/59\]", run.stderr)
        done = rows(self.db, "SELECT count(*) FROM \"case\" WHERE state = 'done'")[0][0]
        # the limit is reached while the last case's results are stored, or when the next case is about to begin
        self.assertIn(done, (int(begun[-1]) - 1, int(begun[-1])))
        self.assertGreater(done, 1)
        self.assertEqual(rows(self.db, "PRAGMA integrity_check"), [("ok",)])


class Kills(Folder):
    def test_a_killed_sweep_is_resumed_and_loses_nothing(self):
        start = time.monotonic()
        self.run_well(*SWEEP, "--db", self.path("whole.db"), "--quiet")
        whole = time.monotonic() - start
        random.seed(KILLS)
        kills = resumed = 0
        known = {}  # what was acknowledged, by sweep and position
        unfinished = False
        while kills < KILLS or unfinished:
            start = time.monotonic()
            command = [BINARY, *SWEEP, "--db", self.db] + (["--resume"] if unfinished else [])
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                killed = False
                try:
                    process.wait(whole * random.uniform(0.3, 1) if kills < KILLS else 300)
                except subprocess.TimeoutExpired:
                    process.kill()
                    killed = True
                out, errors = process.communicate()
            kills += killed
            resumed += unfinished
            if not killed:
                self.assertEqual(process.returncode, 0, errors)
                whole = min(whole, time.monotonic() - start) if not unfinished else whole
            unfinished = self.inspect(known, out, errors, killed)
        print(f"{kills} kills, {resumed} resumed, {len(known)} cases", file=sys.stderr)
        states = rows(self.db, "SELECT state, count(*) FROM sweep GROUP BY state")
        self.assertEqual([state for state, _ in states], ["complete"])
        self.assertEqual(rows(self.db, "SELECT count(*) FROM \"case\" WHERE state <> 'done'"), [(0,)])

    def inspect(self, known, out, errors, killed):
        """Holds the store against all that was acknowledged; returns whether a sweep is unfinished."""
        if not os.path.exists(self.db) or not rows(self.db, "SELECT count(*) FROM sqlite_schema")[0][0]:
            return False
        self.assertEqual(rows(self.db, "PRAGMA integrity_check"), [("ok",)])
        self.assertEqual(rows(self.db, "PRAGMA foreign_key_check"), [])
        last = rows(self.db, "SELECT max(id) FROM sweep")[0][0]
        if last is None:
            return False
        # A case is shown as begun only after the one before it was stored.
        begun = [int(i) for i in re.findall(r"\[(\d+)/3\]", errors)]
        done = {row[:2]: row[2:] for row in rows(self.db, """
            SELECT c.sweep, c.position, c.n, group_concat(t.id || ' ' || t.strategy), count(t.id) FROM "case" AS c
            JOIN (SELECT * FROM trial ORDER BY id) AS t ON t."case" = c.id WHERE c.state = 'done' GROUP BY c.id""")}
        if begun:
            for position in range(begun[-1] - 1):
                self.assertIn((last, position), done, out + errors)
        for key, value in known.items():
            self.assertEqual(done.get(key), value, f"{key} was acknowledged")
        known.update(done)
        # Nothing twice: every position once, and as many trials as any other case has.
        self.assertEqual(rows(self.db, 'SELECT count(*) FROM "case" WHERE sweep = ?', last), [(3,)])
        self.assertLessEqual(len({value[2] for value in done.values()}), 1)
        # A killed one may have been complete already.
        return rows(self.db, "SELECT state FROM sweep WHERE id = ?", last) != [("complete",)]


if __name__ == "__main__":
    if "--kills" in sys.argv:
        at = sys.argv.index("--kills")
        KILLS = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
        sys.argv.append("Kills")
    unittest.main()
