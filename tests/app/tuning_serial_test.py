"""What won is remembered by commit and machine, and believed. Alone, since nothing is learnt on a busy machine."""
import os
import sqlite3
import subprocess
import tempfile
import unittest

BINARY = os.environ["WORKBENCH_BINARY"]
TRIES = 6


class Tuning(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.db = os.path.join(folder.name, "results.db")

    def workbench(self, *arguments):
        done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def rows(self, sql, *values):
        connection = sqlite3.connect(self.db, timeout=30)
        with connection:
            found = connection.execute(sql, values).fetchall()
        connection.close()
        return found

    def test_who_won_is_remembered_and_believed(self):
        sweep = ["sweep", "ci", "--targets", "linear", "--axis", "linear.B=3", "-n", "2,3", "--budget", "0.02",
                 "--db", self.db, "--quiet"]
        for _ in range(TRIES):
            self.workbench(*sweep)
            if len(self.rows("SELECT key FROM tuning WHERE key LIKE 'network | linear |%'")) >= 2:
                break
        else:
            self.skipTest("other programs took the cores all the time: nothing was learnt")
        version = self.workbench("--version").strip()  # another commit has other kernels
        for (machine,) in self.rows("SELECT DISTINCT machine FROM tuning"):
            self.assertTrue(machine.endswith(", " + version), machine)
        for strategy in ("einsum", "baddbmm"):  # whatever really won
            self.rows("UPDATE tuning SET strategy = ?", strategy)
            self.workbench(*sweep)
            chosen = self.rows("""SELECT DISTINCT strategy FROM trial WHERE chosen AND "case" IN
                               (SELECT id FROM "case" WHERE sweep = (SELECT max(id) FROM sweep))""")
            self.assertEqual(chosen, [(strategy,)])


if __name__ == "__main__":
    unittest.main()
