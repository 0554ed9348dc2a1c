"""`sweep --part` and `store merge`: the parts of a sweep are the whole, as SQLite's own shell reads them."""
import json
import os
import shlex
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command_line import BINARY, CommandLine

SWEEP = ["sweep", "ci", "--targets", "linear,rmsnorm", "--axis", "linear.B=3,5", "--axis", "linear.D=8", "-n", "1,2,3",
         "--budget", "0.01"]
COUNT = 3


def shell(db, sql):
    """Rows as SQLite's shell prints them."""
    run = subprocess.run(["sqlite3", "-readonly", "-cmd", ".timeout 10000", db, sql], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


class Parts(CommandLine):
    def part(self, number, *options, count=COUNT, db=None, sweep=SWEEP):
        """The store with a part."""
        path = self.path(db or f"{number}.db")
        self.workbench(*sweep, "--part", f"{number}/{count}", "--db", path, "--quiet", *options)
        return path

    def refused(self, message, *arguments):
        run = self.workbench(*arguments, expect=2)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertIn(message, run.stderr.replace(self.folder + "/", ""))

    def test_parts_make_the_whole(self):
        whole = self.path("whole.db")
        said = self.workbench(*SWEEP, "--db", whole).stdout.splitlines()[0]
        parts = [self.part(k) for k in (3, 1, 2)]
        merged = self.path("merged.db")
        out = self.workbench("store", "merge", merged, *parts).stdout
        cases = """SELECT position, target, shape, dtype, device, mode, phase, n, strategies, state, machine
                   FROM "case" ORDER BY position"""
        self.assertEqual(shell(merged, cases), shell(whole, cases))
        count = int(shell(whole, 'SELECT count(*) FROM "case"')[0])
        self.assertEqual(out, f"{count} cases of 3 stores are in {merged}\n")
        self.assertIn(f"sweep ci: {count} cases", said)
        trials = """SELECT c.position, t.position, t.strategy, t.status FROM "case" AS c JOIN trial AS t
                    ON t."case" = c.id ORDER BY 1, 2"""
        self.assertEqual(shell(merged, trials), shell(whole, trials))
        self.assertEqual(shell(merged, "SELECT name, state FROM sweep"), ["ci|complete"])
        self.assertEqual(shell(merged, "SELECT key, value FROM sweep, json_each(settings)"),
                         shell(whole, "SELECT key, value FROM sweep, json_each(settings)"))
        # All that was measured is what the parts have, to the last bit.
        timings = """SELECT c.position, coalesce(t.position, -1), m.position, m.name, m.kind, hex(s.ns), m.more,
                            k.max_rel, k.pass, t.vs_best, t.verdict, c.more
                     FROM timing AS m JOIN samples AS s ON s.timing = m.id LEFT JOIN trial AS t ON t.id = m.trial
                     JOIN "case" AS c ON c.id = coalesce(m."case", t."case")
                     LEFT JOIN correctness AS k ON k.trial = t.id ORDER BY 1, 2, 3, 4"""
        of_parts = [line for part in parts for line in shell(part, timings)]
        self.assertEqual(sorted(shell(merged, timings)), sorted(of_parts))
        self.assertGreater(len(of_parts), 3 * count)
        self.assertEqual(shell(merged, "PRAGMA integrity_check; PRAGMA foreign_key_check"), ["ok"])
        shares = [int(shell(p, 'SELECT count(*) FROM "case"')[0]) for p in parts]
        self.assertEqual(sum(shares), count)
        self.assertGreater(min(shares), 0)
        report = self.path("merged.json")
        self.workbench("report", "last", "--db", merged, "--json", report)
        with open(report, encoding="utf-8") as file:
            data = json.load(file)
        self.assertEqual(len(data["cases"]), count)
        begun = [c[:8] for c in data["changes"] if ", begun " in c]
        self.assertEqual(begun, [f"part {k}/3" for k in (1, 2, 3)])
        self.assertNotIn("machines", data)
        # It is repeated as the whole, without what one part had for itself.
        self.assertEqual(data["sweep"]["command"], shlex.join([BINARY, *SWEEP]))
        self.assertEqual(data["environment"]["command"], data["sweep"]["command"])
        # The merged store is one like others: a whole sweep that is there to be compared.
        self.workbench("compare", report, report)

    def test_the_command_of_the_whole_keeps_every_other_word(self):
        sweep = ["sweep", "ci", "--targets", "rmsnorm", "-n", "1,2", "--name", "it's --part of a", "--budget=0.01"]
        stores = []
        for k in (1, 2):
            stores.append(self.path(f"{k}.db"))
            self.workbench(*sweep, f"--part={k}/2", f"--db={stores[-1]}", "--quiet", "--json", self.path("a b.json"))
        merged = self.path("merged.db")
        self.workbench("store", "merge", merged, *stores)
        command, = shell(merged, "SELECT command FROM sweep")
        self.assertEqual(shlex.split(command), [BINARY, *sweep])

    def test_what_is_no_whole_is_refused(self):
        sweep = ["sweep", "ci", "--targets", "rmsnorm", "-n", "1,2,3", "--budget", "0.01"]
        one, two = (self.part(k, count=2, sweep=sweep) for k in (1, 2))
        merged = self.path("merged.db")

        def refused(message, *parts):
            self.refused(message, "store", "merge", merged, *parts)
            self.assertFalse(os.path.exists(merged))

        refused("[ci] merge: got 1 of 2 parts, expected 1/2 too; try to add what is missing", two)
        refused("[1.db] merge: got it twice, expected each part once; try to leave one out\n", one, two, one)
        again = self.part(1, count=2, db="again.db", sweep=sweep)
        refused("[again.db] merge: got part 1/2, which 1.db has too, expected it once; try to leave one out\n", one, two,
                again)
        self.part(1, count=2, db="again.db", sweep=sweep)
        refused("[again.db] merge: got part 1/2 twice, as sweeps 1 and 2, expected it once; try workbench store export of "
                "one\n", two, again)
        seed = self.part(2, "--seed", "1", count=2, db="seed.db", sweep=sweep)
        refused("[seed.db] merge: got part 2/2 with --seed 1, expected 0 as in 1.db; try parts of one sweep", one, seed)
        other = self.part(2, count=2, db="other.db", sweep=[*sweep[:4], "-n", "1,2,4", "--budget", "0.01"])
        refused("[other.db] merge: got part 2/2 of other cases (", one, other)
        refused("-n 1,2,4 --budget", one, other)
        named = self.part(2, "--name", "mine", count=2, db="named.db", sweep=sweep)
        refused("[named.db] merge: got part 2/2 with the name mine, expected ci", one, named)
        third = self.part(2, count=3, db="third.db", sweep=sweep)
        refused("[third.db] merge: got part 2/3 with a number of parts 3, expected 2 as in 1.db", one, third)
        whole = self.path("whole.db")
        self.workbench(*sweep, "--db", whole, "--quiet")
        refused("[whole.db] merge: got no part of a sweep, expected one", one, whole)
        subprocess.run(["sqlite3", "-cmd", "PRAGMA foreign_keys = on", two, """DELETE FROM timing; DELETE FROM trial; UPDATE "case" SET state = 'planned';
                        UPDATE sweep SET state = 'interrupted'"""],
                       check=True, timeout=60)
        with open(self.path("bad.db"), "w", encoding="utf-8") as file:
            file.write("text")
        for name, got in (("nothing.db", "no such file"), ("bad.db", "a file that is no database")):
            run = self.workbench("store", "merge", merged, one, self.path(name), expect=1)
            self.assertEqual(run.stderr, f"[{self.path(name)}] store: got {got}, expected stored results; try the stores of "
                                         "workbench sweep PRESET --part K/N\n")
        shutil.copy(two, self.path("newer.db"))
        schema = int(shell(two, "PRAGMA user_version")[0])
        subprocess.run(["sqlite3", self.path("newer.db"), "PRAGMA user_version = 99"], check=True, timeout=60)
        run = self.workbench("store", "merge", merged, one, self.path("newer.db"), expect=1)
        self.assertEqual(run.stderr, f"[{self.path('newer.db')}] store: got schema 99, expected at most {schema}; try the newer "
                                     "workbench that wrote it\n")
        self.refused("[no/such/merged.db] folder: got none, expected one to write into; try mkdir\n", "store", "merge",
                     self.path("no/such/merged.db"), one, two)
        left = int(shell(two, 'SELECT count(*) FROM "case"')[0])
        refused(f"[2.db] merge: got part 2/2 with 0 of its {left} cases, expected all; try to run it again with --resume",
                one, two)
        self.workbench(*sweep, "--part", "2/2", "--db", two, "--quiet", "--resume")
        self.workbench("store", "merge", merged, one, two)
        self.refused("[merged.db] merge: got a file that exists, expected a new one", "store", "merge", merged, one, two)

    def test_a_full_disk_names_what_was_to_be_written(self):
        sweep = ["sweep", "ci", "--targets", "rmsnorm", "-n", "1,2", "--budget", "0.01"]
        one, two = (self.part(k, count=2, sweep=sweep) for k in (1, 2))
        run = subprocess.run(["sh", "-c", 'ulimit -f 80 && exec "$@"', "sh", BINARY, "store", "merge", self.path("merged.db"),
                              one, two], capture_output=True, text=True, timeout=60)
        self.assertEqual((run.returncode, run.stderr.count("\n")), (1, 1), run.stderr)
        self.assertIn(f"[{self.path('merged.db')}] store: got ", run.stderr)
        self.assertTrue(run.stderr.endswith("; try another OUT.db\n"), run.stderr)
        self.assertEqual([f for f in os.listdir(self.folder) if "merged" in f], [])

    def test_other_programs(self):
        """Times of two LibTorch do not belong together; of two states of the sources they do, and it is said."""
        sweep = ["sweep", "ci", "--targets", "rmsnorm", "-n", "1,2", "--budget", "0.01"]
        one, two = (self.part(k, count=2, sweep=sweep) for k in (1, 2))
        git = shell(one, "SELECT git FROM environment")[0]

        def plant(column, value):
            subprocess.run(["sqlite3", two, f"UPDATE environment SET {column} = '{value}'"], check=True, timeout=60)

        torch, version = shell(one, "SELECT libtorch, workbench FROM environment")[0].split("|")
        for column, name, value in (("libtorch", "LibTorch", torch), ("workbench", "workbench", version)):
            plant(column, "9.9")
            self.refused(f"[2.db] merge: got part 2/2 measured with {name} 9.9, expected {value} as in 1.db; try to run it "
                         "again with one program", "store", "merge", self.path("merged.db"), one, two)
            plant(column, value)
        plant("git", "abc")
        self.workbench("store", "merge", self.path("merged.db"), one, two)
        changes = shell(self.path("merged.db"), "SELECT value FROM sweep, json_each(changes)")
        self.assertIn(f"part 2/2: git abc, part 1/2 has {git}", changes)

    def test_what_is_no_part_is_refused(self):
        for text in ("0/2", "3/2", "2", "1/0", "a/b", "1/2/3", "-1/2", ""):
            self.refused(f"[--part] part: got {text or 'nothing'}, expected K/N with K from 1 to N; try 1/4",
                         *SWEEP, "--part", text, "--dry-run")
        self.refused("cases, expected no more than there are; try 1/", *SWEEP, "--part", "1/1000", "--dry-run")
        self.refused("--part", *SWEEP, "--part", "1/2", "--no-store")

    def seconds(self, text):
        """"1 h 2 min", as a dry run prints it."""
        words = text.split()
        return sum(int(n) * {"h": 3600, "min": 60, "s": 1}[unit] for n, unit in zip(words[::2], words[1::2]))

    def test_parts_are_even(self):
        """By the estimates that a dry run prints, also for as many machines."""
        def about(*options):
            line = self.workbench("sweep", "quick", "--device", "cpu", "--dry-run", *options).stdout.splitlines()[0]
            return self.seconds(line.split("about ")[1].split(";")[0])

        whole = about()
        parts = [about("--part", f"{k}/5") for k in range(1, 6)]
        for part in parts:
            self.assertLess(abs(part - whole / 5), 0.05 * whole, (whole, parts))
        line = self.workbench("sweep", "quick", "--device", "cpu", "--dry-run", "--machines", "5").stdout.splitlines()[1]
        self.assertRegex(line, r"^on 5 machines: about .*, they are busy \d+ % of it$")
        self.assertEqual(self.seconds(line.split("about ")[1].split(",")[0]), max(parts))
        busy = int(line.split("busy ")[1].split()[0])
        self.assertAlmostEqual(busy, 100 * whole / 5 / max(parts), delta=2)
        one_more = str(1 + int(shell(self.part(1, count=1), 'SELECT count(*) FROM "case"')[0]))
        line = self.workbench(*SWEEP, "--dry-run", "--machines", one_more).stdout.splitlines()[1]
        self.assertTrue(line.endswith(", 1 has nothing to do"), line)
        line = self.workbench(*SWEEP, "--dry-run", "--machines", "64").stdout.splitlines()[1]
        self.assertRegex(line, r"^on 64 machines: .*, \d+ have nothing to do$")
        self.refused("--machines", *SWEEP, "--machines", "64")


if __name__ == "__main__":
    unittest.main()
