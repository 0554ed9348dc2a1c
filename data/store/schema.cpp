#include "data/store/schema.h"

namespace wide {

// Columns are named as in the reports; fields without a column lie in `more` as JSON, by the same
// names: SELECT more ->> 'cold_ns' FROM timing. Times are nanoseconds.
const std::vector<std::string>& store_migrations() {
  static const std::vector<std::string> steps = {
      // 1: sweeps
      R"sql(
CREATE TABLE environment(
  id INTEGER PRIMARY KEY,
  cpu TEXT, cores INTEGER, threads INTEGER, memory_bytes INTEGER, gpu TEXT,
  libtorch TEXT, workbench TEXT, git TEXT, host TEXT, os TEXT, date TEXT, command TEXT,
  more TEXT NOT NULL CHECK(json_valid(more))
) STRICT;

CREATE TABLE sweep(
  id INTEGER PRIMARY KEY AUTOINCREMENT,  -- the number users type; never given twice
  name TEXT NOT NULL,
  command TEXT NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('running', 'complete', 'cancelled', 'interrupted')),
  environment INTEGER NOT NULL REFERENCES environment(id),
  started TEXT NOT NULL,                 -- UTC, ISO 8601
  finished TEXT,
  owner TEXT,                            -- the process that runs it: host, boot, namespace, id
  settings TEXT NOT NULL CHECK(json_valid(settings))  -- what the sweep was asked to do
) STRICT;
CREATE INDEX sweep_name ON sweep(name);
CREATE INDEX sweep_environment ON sweep(environment);

-- Every case from the start of its sweep: what is not done is what a resume runs. A partial one
-- was cancelled by the user between its trials.
CREATE TABLE "case"(
  id INTEGER PRIMARY KEY,
  sweep INTEGER NOT NULL REFERENCES sweep(id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('planned', 'running', 'partial', 'done')),
  target TEXT NOT NULL, shape TEXT NOT NULL, dtype TEXT NOT NULL, device TEXT NOT NULL,
  mode TEXT NOT NULL, phase TEXT NOT NULL, n INTEGER NOT NULL,
  strategies TEXT NOT NULL CHECK(json_valid(strategies)),
  more TEXT NOT NULL DEFAULT '{}' CHECK(json_valid(more)),
  UNIQUE(sweep, position)
) STRICT;

CREATE TABLE trial(
  id INTEGER PRIMARY KEY,
  "case" INTEGER NOT NULL REFERENCES "case"(id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  strategy TEXT NOT NULL,
  status TEXT NOT NULL,
  reason TEXT,
  chosen INTEGER NOT NULL,
  verdict TEXT,
  vs_loop REAL, vs_loop_low REAL, vs_loop_high REAL,  -- the ratio and its 95 % interval
  vs_best REAL, vs_best_low REAL, vs_best_high REAL, best_baseline TEXT,
  UNIQUE("case", position)
) STRICT;
CREATE INDEX trial_status ON trial("case", status);  -- what a listing counts

-- Of a trial, or of a baseline (then trial is null).
CREATE TABLE timing(
  id INTEGER PRIMARY KEY,
  "case" INTEGER REFERENCES "case"(id) ON DELETE CASCADE,
  trial INTEGER UNIQUE REFERENCES trial(id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  name TEXT NOT NULL, kind TEXT NOT NULL,
  median_ns REAL, q1_ns REAL, q3_ns REAL,
  outliers INTEGER, calls_per_sample INTEGER, first_call_ns REAL, peak_bytes INTEGER,
  flops_share REAL, bytes_share REAL,
  more TEXT NOT NULL CHECK(json_valid(more))
) STRICT;
CREATE INDEX timing_case ON timing("case");

-- All samples of a timing in order of time: 8 bytes each, IEEE 754 double, big-endian. The view
-- `sample` takes them apart.
CREATE TABLE samples(
  timing INTEGER PRIMARY KEY REFERENCES timing(id) ON DELETE CASCADE,
  ns BLOB NOT NULL CHECK(length(ns) % 8 = 0)
) STRICT;

CREATE TABLE correctness(
  id INTEGER PRIMARY KEY,
  trial INTEGER UNIQUE REFERENCES trial(id) ON DELETE CASCADE,
  max_rel REAL, eager_max_rel REAL, tolerance REAL,
  isolated INTEGER, ordered INTEGER, pass INTEGER NOT NULL,
  more TEXT NOT NULL CHECK(json_valid(more))
) STRICT;

CREATE TABLE reference(
  name TEXT PRIMARY KEY,
  sweep INTEGER NOT NULL REFERENCES sweep(id) ON DELETE CASCADE,
  date TEXT NOT NULL
) STRICT;
CREATE INDEX reference_sweep ON reference(sweep);
)sql",
      // 2: fusions, tuning, samples as rows, sweeps that have the same identity in every store
      R"sql(
ALTER TABLE sweep ADD COLUMN uuid TEXT;
UPDATE sweep SET uuid = lower(hex(randomblob(16)));
CREATE UNIQUE INDEX sweep_uuid ON sweep(uuid);
ALTER TABLE sweep ADD COLUMN changes TEXT NOT NULL DEFAULT '[]' CHECK(json_valid(changes));

CREATE TABLE fuse(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model TEXT NOT NULL,
  environment INTEGER NOT NULL REFERENCES environment(id),
  device TEXT, dtype TEXT, mode TEXT,
  more TEXT NOT NULL CHECK(json_valid(more))
) STRICT;
CREATE INDEX fuse_environment ON fuse(environment);

-- One N of a trial fusion.
CREATE TABLE fuse_point(
  id INTEGER PRIMARY KEY,
  fuse INTEGER NOT NULL REFERENCES fuse(id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  n INTEGER NOT NULL,
  chosen TEXT,
  vs_loop REAL, vs_loop_low REAL, vs_loop_high REAL,
  vs_best REAL, vs_best_low REAL, vs_best_high REAL, best_baseline TEXT,
  first_call_ns REAL, wide_bytes INTEGER, separate_bytes INTEGER,
  more TEXT NOT NULL CHECK(json_valid(more)),
  UNIQUE(fuse, position)
) STRICT;
ALTER TABLE timing ADD COLUMN fuse_point INTEGER REFERENCES fuse_point(id) ON DELETE CASCADE
  CHECK((fuse_point IS NULL) <> ("case" IS NULL));
CREATE INDEX timing_fuse_point ON timing(fuse_point) WHERE fuse_point IS NOT NULL;
ALTER TABLE correctness ADD COLUMN fuse_point INTEGER REFERENCES fuse_point(id) ON DELETE CASCADE
  CHECK((fuse_point IS NULL) <> (trial IS NULL));
CREATE UNIQUE INDEX correctness_fuse_point ON correctness(fuse_point);

-- How often each way was taken, and its share of the time where that was measured.
CREATE TABLE coverage(
  fuse_point INTEGER NOT NULL REFERENCES fuse_point(id) ON DELETE CASCADE,
  way TEXT NOT NULL CHECK(way IN ('strategy', 'vmap', 'shared', 'per_model')),
  nodes INTEGER NOT NULL,
  time REAL,
  PRIMARY KEY(fuse_point, way)
) STRICT, WITHOUT ROWID;

-- Where every node (or region of `nodes` nodes) of the recorded program went.
CREATE TABLE node(
  fuse_point INTEGER NOT NULL REFERENCES fuse_point(id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  node INTEGER NOT NULL, nodes INTEGER NOT NULL,
  operator TEXT NOT NULL, module TEXT, "primitive" TEXT, strategy TEXT,
  way TEXT NOT NULL, reason TEXT,
  PRIMARY KEY(fuse_point, position)
) STRICT, WITHOUT ROWID;

-- Which strategy won, and its time; a key names all it depends on but the machine.
CREATE TABLE tuning(
  machine TEXT NOT NULL,
  key TEXT NOT NULL,
  strategy TEXT NOT NULL,
  median_ns REAL NOT NULL,
  date TEXT NOT NULL,
  PRIMARY KEY(machine, key)
) STRICT, WITHOUT ROWID;

-- A row per sample: (1 + mantissa / 2^52) * 2^exponent, exactly; for 0 and 2^-62 to 2^63.
CREATE VIEW sample(timing, position, ns) AS
SELECT s.timing, i.key,
  (SELECT CASE WHEN bits = 0 THEN 0.0
               WHEN bits >> 52 < 1023
               THEN (1 + (bits & 4503599627370495) / 4503599627370496.0) / (1 << (1023 - (bits >> 52)))
               ELSE (1 + (bits & 4503599627370495) / 4503599627370496.0) * (1 << ((bits >> 52) - 1023))
          END
   FROM (SELECT sum(instr('123456789ABCDEF', substr(hex(substr(s.ns, 1 + 8 * i.key, 8)), 1 + d.key, 1))
                    << (60 - 4 * d.key)) AS bits
         FROM json_each('[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]') AS d))
FROM samples AS s,
  -- an array of as many elements as there are samples
  json_each('[' || substr(replace(hex(zeroblob(length(s.ns) / 8)), '00', ',0'), 2) || ']') AS i;
)sql",
      // 3: training runs
      R"sql(
CREATE TABLE run(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  uuid TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  network TEXT NOT NULL,
  n INTEGER NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('running', 'complete', 'interrupted')),
  environment INTEGER NOT NULL REFERENCES environment(id),
  started TEXT NOT NULL,                 -- UTC, ISO 8601
  finished TEXT,
  owner TEXT NOT NULL,                   -- the process that trains
  more TEXT NOT NULL CHECK(json_valid(more))
) STRICT;
CREATE INDEX run_name ON run(name);
CREATE INDEX run_environment ON run(environment);

CREATE TABLE run_model(
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  model INTEGER NOT NULL,
  config INTEGER NOT NULL,
  fold INTEGER,
  status TEXT NOT NULL,
  at_step INTEGER NOT NULL,
  more TEXT NOT NULL CHECK(json_valid(more)),
  PRIMARY KEY(run, model)
) STRICT, WITHOUT ROWID;

-- What each model had at each evaluation.
CREATE TABLE run_metric(
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  model INTEGER NOT NULL,
  metric TEXT NOT NULL,
  step INTEGER NOT NULL,
  value REAL NOT NULL,
  PRIMARY KEY(run, model, metric, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE run_event(
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  step INTEGER NOT NULL,
  model INTEGER,                         -- null: of the whole run
  what TEXT NOT NULL
) STRICT;
CREATE INDEX run_event_run ON run_event(run);
)sql",
      // 4: mode default was called eager, and rows of mode default said that it did not exist
      R"sql(
DELETE FROM "case" WHERE mode = 'default';
UPDATE "case" SET mode = 'default' WHERE mode = 'eager';
UPDATE fuse SET mode = 'default' WHERE mode = 'eager';
)sql",
      // 5: times of a training run's evaluations, and requests of other processes to a running run
      R"sql(
CREATE TABLE run_time(
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  step INTEGER NOT NULL,
  seconds REAL NOT NULL,                 -- of training
  PRIMARY KEY(run, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE run_request(
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  model INTEGER,                         -- null: the whole run
  what TEXT NOT NULL CHECK(what IN ('stop')),
  asked TEXT NOT NULL,                   -- UTC, ISO 8601
  taken TEXT                             -- when the run read it; null: not yet
) STRICT;
CREATE INDEX run_request_run ON run_request(run);
)sql",
      // 6: requests that change a hyperparameter or copy a model, and the outcome of each
      R"sql(
CREATE TABLE run_request_6(
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  model INTEGER,                         -- null: the whole run, all models
  what TEXT NOT NULL CHECK(what IN ('stop', 'set', 'copy', 'go')),
  key TEXT,                              -- of set: a hyperparameter
  value REAL,                            -- of set: its new value
  source INTEGER,                        -- of copy: the model whose weights are taken
  asked TEXT NOT NULL,                   -- UTC, ISO 8601
  taken TEXT,                            -- when the run read it; null: not yet
  step INTEGER,                          -- of the run when it did
  refused TEXT                           -- why it was not done
) STRICT;
INSERT INTO run_request_6(id, run, model, what, asked, taken)
  SELECT id, run, model, what, asked, taken FROM run_request;
DROP TABLE run_request;
ALTER TABLE run_request_6 RENAME TO run_request;
CREATE INDEX run_request_run ON run_request(run);
  )sql",
      // 7: sweeps over several machines
      R"sql(
ALTER TABLE "case" ADD COLUMN machine TEXT;  -- "HOST: PROCESSOR, 2 cores, GPU"; null: not known

-- Those that cases were measured on besides the sweep's own environment.
CREATE TABLE machine(
  sweep INTEGER NOT NULL REFERENCES sweep(id) ON DELETE CASCADE,
  name TEXT NOT NULL,                    -- as the cases have it
  environment INTEGER NOT NULL REFERENCES environment(id),
  PRIMARY KEY(sweep, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX machine_environment ON machine(environment);
)sql",
      // 8: the digest of all cases is called "of cases", not "of plan"
      R"sql(
UPDATE sweep SET settings =
    json_remove(json_set(settings, '$."of cases"', settings ->> '$."of plan"'), '$."of plan"')
  WHERE settings ->> '$."of plan"' IS NOT NULL;
)sql"};
  return steps;
}

int64_t store_version() { return static_cast<int64_t>(store_migrations().size()); }

}  // namespace wide
