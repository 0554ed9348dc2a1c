"""The store of sweeps and fusions as DataFrames: `nw.open("results.db").trials("last")`."""

import os
import sqlite3

from .errors import fail

# A trial that was not timed, such as one that is unsupported, has 0 where nothing was measured: NULL here.
TRIALS = """
SELECT c.target, c.shape, c.n, c.dtype, c.device, c.mode, c.phase, t.strategy, t.status, t.reason, t.chosen, t.verdict,
       NULLIF(m.median_ns, 0) AS median_ns, NULLIF(m.q1_ns, 0) AS q1_ns, NULLIF(m.q3_ns, 0) AS q3_ns,
       CASE WHEN m.median_ns > 0 THEN m.first_call_ns ELSE NULLIF(m.first_call_ns, 0) END AS first_call_ns,
       CASE WHEN m.median_ns > 0 THEN m.peak_bytes ELSE NULLIF(m.peak_bytes, 0) END AS peak_bytes, m.flops_share, m.bytes_share,
       t.vs_loop, t.vs_loop_low, t.vs_loop_high, t.vs_best, t.vs_best_low, t.vs_best_high, t.best_baseline,
       k.max_rel, k.tolerance, k.isolated, k.ordered, json_extract(c.more, '$.disturbed') AS disturbed
FROM "case" AS c JOIN trial AS t ON t."case" = c.id LEFT JOIN timing AS m ON m.trial = t.id
LEFT JOIN correctness AS k ON k.trial = t.id WHERE c.sweep = ? ORDER BY c.position, t.position"""
BASELINES = """
SELECT c.target, c.shape, c.n, c.dtype, c.device, c.mode, c.phase, m.name, m.median_ns, m.q1_ns, m.q3_ns
FROM "case" AS c JOIN timing AS m ON m."case" = c.id WHERE c.sweep = ? AND m.trial IS NULL
ORDER BY c.position, m.position"""
SWEEPS = """
SELECT s.id, s.name, s.state, s.started, s.finished, s.command, e.cpu, e.threads, e.git
FROM sweep AS s JOIN environment AS e ON e.id = s.environment ORDER BY s.id"""
FUSIONS = """
SELECT f.id, f.model, p.n, f.device, f.dtype, p.chosen, p.vs_loop, p.vs_loop_low, p.vs_loop_high,
       p.vs_best, p.vs_best_low, p.vs_best_high, p.best_baseline, p.first_call_ns, p.wide_bytes, p.separate_bytes
FROM fuse AS f JOIN fuse_point AS p ON p.fuse = f.id ORDER BY f.id, p.position"""

RUNS = """
SELECT id, name, network, n, state, started, finished, json_extract(more, '$.run.dir') AS folder,
       json_extract(more, '$.run.seconds') AS seconds
FROM run ORDER BY id"""


def default_path():
    """Where `workbench` keeps its results."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.environ.get("WORKBENCH_DB") or os.path.join(data, "workbench", "results.db")


class Store:
    """Read-only; each method gives a pandas DataFrame. Times are nanoseconds, as their names say."""

    def __init__(self, path=None):
        self.path = path or default_path()
        if not os.path.exists(self.path):
            fail("open", self.path, "no such file", "a store of results", "workbench --sweep quick")

    def _frame(self, sql, *arguments):
        try:
            import pandas
        except ImportError:
            fail("open", "pandas", "none", "it, for frames", "pip install pandas")
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        try:
            return pandas.read_sql_query(sql, connection, params=arguments)
        except Exception as error:  # pandas wraps what SQLite says
            fail("open", self.path, str(error).split("\n")[-1], "a store of this version", "workbench list sweeps --db FILE")
        finally:
            connection.close()

    def _sweep(self, sweep):
        known = self.sweeps()
        if sweep == "last" and len(known):
            return int(known["id"].iloc[-1])
        found = known[(known["id"] == sweep) | (known["name"] == sweep)]
        if not len(found):
            fail("open", "sweep", sweep, f"one of {', '.join(map(str, known['id'])) or 'none'}", "sweeps()")
        return int(found["id"].iloc[-1])

    def sweeps(self):
        """A row per sweep."""
        return self._frame(SWEEPS)

    def trials(self, sweep="last"):
        """A row per trial of a sweep, given by number, by name or as "last". `disturbed`: whether other programs took so much of the
        cores that its times are not to be trusted."""
        frame = self._frame(TRIALS, self._sweep(sweep))
        return frame.assign(disturbed=frame["disturbed"] == 1)

    def baselines(self, sweep="last"):
        """A row per baseline."""
        return self._frame(BASELINES, self._sweep(sweep))

    def fusions(self):
        """A row per N of every fusion."""
        return self._frame(FUSIONS)

    def runs(self):
        """A row per training run; `nw.open_run(folder, Net)` opens one."""
        return self._frame(RUNS)


def open(path: str | os.PathLike[str] | None = None) -> "Store":
    """The store at `path`; none: the one that `workbench` writes."""
    return Store(path)
