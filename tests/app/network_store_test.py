"""A store on a network file system, which a library that stands before statfs makes of this one: its journal is one that
is deleted, not the log that needs shared memory, and that is said once."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command_line import BINARY, CommandLine

SWEEP = ["sweep", "ci", "--targets", "rmsnorm", "-n", "1,2", "--budget", "0.01"]
NFS, LUSTRE, LOCAL = 0x6969, 0x0BD00BD0, 0xEF53
SOURCE = """#include <sys/vfs.h>
#include <string.h>
int statfs(const char* path, struct statfs* facts) { (void)path; memset(facts, 0, sizeof *facts); facts->f_type = %d; return 0; }
"""


class NetworkStore(CommandLine):
    def run_on(self, magic, db, *options):
        source, library = self.path(f"{magic}.c"), self.path(f"{magic}.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write(SOURCE % magic)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
        sanitizer = os.environ.get("ASAN_OPTIONS", "")
        run = subprocess.run([BINARY, *SWEEP, "--db", db, *options], capture_output=True, text=True, timeout=300,
                             env={**os.environ, "LD_PRELOAD": library, "ASAN_OPTIONS": sanitizer + ":verify_asan_link_order=0"})
        self.assertEqual(run.returncode, 0, run.stderr)
        return [line for line in run.stdout.splitlines() if "journal" in line]

    def journal(self, db):
        shell = subprocess.run(["sqlite3", db, "PRAGMA journal_mode; SELECT state FROM sweep"], capture_output=True, text=True,
                               timeout=60)
        return shell.stdout.split()

    def test_the_journal_is_deleted(self):
        db = self.path("sweep.db")
        self.assertEqual(self.run_on(NFS, db), ["note: the store lies on NFS: it keeps its journal by DELETE, not WAL, which is "
                                                "slower"])
        self.assertEqual(self.journal(db), ["delete", "complete"])
        self.assertEqual([f for f in os.listdir(self.folder) if f.startswith("sweep.db-")], [])

    def test_one_that_comes_to_a_network_changes_its_journal_and_back(self):
        db = self.path("sweep.db")
        self.assertEqual(self.run_on(LOCAL, db), [])
        self.assertEqual(self.journal(db), ["wal", "complete"])
        self.assertEqual(len(self.run_on(LUSTRE, db)), 1)
        self.assertEqual(self.journal(db), ["delete", "complete", "complete"])
        self.assertEqual(self.run_on(LUSTRE, db, "--quiet"), [])
        self.run_on(LOCAL, db)
        self.assertEqual(self.journal(db)[0], "wal")


if __name__ == "__main__":
    unittest.main()
