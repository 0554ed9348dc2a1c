-- A store of schema version 1, as its last program left it.
BEGIN TRANSACTION;
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
INSERT INTO "case" VALUES(1,3,0,'done','linear','B3 D7','f32','cpu','eager','forward',2,'["einsum","vmap"]','{}');
INSERT INTO "case" VALUES(2,3,1,'done','linear','B3 D7','f32','cpu','eager','forward',5,'["einsum","vmap"]','{}');
INSERT INTO "case" VALUES(3,5,0,'done','linear','B3 D7','f32','cpu','eager','forward',2,'["einsum","vmap"]','{}');
INSERT INTO "case" VALUES(4,5,1,'planned','linear','B3 D7','f32','cpu','eager','forward',5,'["einsum","vmap"]','{}');
CREATE TABLE correctness(
  id INTEGER PRIMARY KEY,
  trial INTEGER UNIQUE REFERENCES trial(id) ON DELETE CASCADE,
  max_rel REAL, eager_max_rel REAL, tolerance REAL,
  isolated INTEGER, ordered INTEGER, pass INTEGER NOT NULL,
  more TEXT NOT NULL CHECK(json_valid(more))
) STRICT;
INSERT INTO "correctness" VALUES(1,11,1.0e-07,2.0e-07,1.0e-05,1,1,1,'{}');
INSERT INTO "correctness" VALUES(2,21,1.0e-07,2.0e-07,1.0e-05,1,1,1,'{}');
INSERT INTO "correctness" VALUES(3,31,1.0e-07,2.0e-07,1.0e-05,1,1,1,'{}');
CREATE TABLE environment(
  id INTEGER PRIMARY KEY,
  cpu TEXT, cores INTEGER, threads INTEGER, memory_bytes INTEGER, gpu TEXT,
  libtorch TEXT, workbench TEXT, git TEXT, host TEXT, os TEXT, date TEXT, command TEXT,
  more TEXT NOT NULL CHECK(json_valid(more))
) STRICT;
INSERT INTO "environment" VALUES(1,'Some CPU',4,4,8000000000,NULL,'2.11.0','0.1.0','0123456789ab','a-host','Linux 6.1','2026-01-02T03:04:05Z','workbench sweep old','{"cpu":{"governor":"performance"}}');
CREATE TABLE reference(
  name TEXT PRIMARY KEY,
  sweep INTEGER NOT NULL REFERENCES sweep(id) ON DELETE CASCADE,
  date TEXT NOT NULL
) STRICT;
INSERT INTO "reference" VALUES('base',3,'2026-01-03T00:00:00Z');
CREATE TABLE samples(
  timing INTEGER PRIMARY KEY REFERENCES timing(id) ON DELETE CASCADE,
  ns BLOB NOT NULL CHECK(length(ns) % 8 = 0)
) STRICT;
INSERT INTO "samples" VALUES(10,X'409F400000000000409FBD000000000040A01D000000000040A05B8000000000');
INSERT INTO "samples" VALUES(11,X'407F400000000000407FBD000000000040801D000000000040805B8000000000');
INSERT INTO "samples" VALUES(12,X'');
INSERT INTO "samples" VALUES(20,X'40B388000000000040B3D6200000000040B424400000000040B4726000000000');
INSERT INTO "samples" VALUES(21,X'40938800000000004093D6200000000040942440000000004094726000000000');
INSERT INTO "samples" VALUES(22,X'');
INSERT INTO "samples" VALUES(30,X'409F400000000000409FBD000000000040A01D000000000040A05B8000000000');
INSERT INTO "samples" VALUES(31,X'407F400000000000407FBD000000000040801D000000000040805B8000000000');
INSERT INTO "samples" VALUES(32,X'');
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
INSERT INTO "sweep" VALUES(3,'old','workbench sweep old','complete',1,'2026-01-02T03:04:05Z','2026-01-02T03:05:05Z',NULL,'{"--seed":"0"}');
INSERT INTO "sweep" VALUES(5,'cut','workbench sweep cut','interrupted',1,'2026-01-02T04:04:05Z',NULL,NULL,'{"--seed":"0","--part":"2/3","of plan":"0123abcd"}');
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
INSERT INTO "timing" VALUES(10,1,NULL,0,'loop','baseline',2046.875,2000.0,2093.75,0,10,5000000.0,8192,NULL,0.5,'{}');
INSERT INTO "timing" VALUES(11,1,11,0,'einsum','candidate',511.71875,500.0,523.4375,0,10,5000000.0,8192,NULL,0.5,'{}');
INSERT INTO "timing" VALUES(12,1,12,1,'vmap','candidate',0.0,0.0,0.0,0,0,0.0,0,NULL,NULL,'{}');
INSERT INTO "timing" VALUES(20,2,NULL,0,'loop','baseline',5117.1875,5000.0,5234.375,0,10,5000000.0,20480,NULL,0.5,'{}');
INSERT INTO "timing" VALUES(21,2,21,0,'einsum','candidate',1279.296875,1250.0,1308.59375,0,10,5000000.0,20480,NULL,0.5,'{}');
INSERT INTO "timing" VALUES(22,2,22,1,'vmap','candidate',0.0,0.0,0.0,0,0,0.0,0,NULL,NULL,'{}');
INSERT INTO "timing" VALUES(30,3,NULL,0,'loop','baseline',2046.875,2000.0,2093.75,0,10,5000000.0,8192,NULL,0.5,'{}');
INSERT INTO "timing" VALUES(31,3,31,0,'einsum','candidate',511.71875,500.0,523.4375,0,10,5000000.0,8192,NULL,0.5,'{}');
INSERT INTO "timing" VALUES(32,3,32,1,'vmap','candidate',0.0,0.0,0.0,0,0,0.0,0,NULL,NULL,'{}');
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
INSERT INTO "trial" VALUES(11,1,0,'einsum','ok',NULL,1,'FASTER',4.0,3.75,4.25,4.0,3.75,4.25,'loop');
INSERT INTO "trial" VALUES(12,1,1,'vmap','unsupported','no "rule"',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(21,2,0,'einsum','ok',NULL,1,'FASTER',4.0,3.75,4.25,4.0,3.75,4.25,'loop');
INSERT INTO "trial" VALUES(22,2,1,'vmap','unsupported','no "rule"',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(31,3,0,'einsum','ok',NULL,1,'FASTER',4.0,3.75,4.25,4.0,3.75,4.25,'loop');
INSERT INTO "trial" VALUES(32,3,1,'vmap','unsupported','no "rule"',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE INDEX sweep_name ON sweep(name);
CREATE INDEX sweep_environment ON sweep(environment);
CREATE INDEX trial_status ON trial("case", status);
CREATE INDEX timing_case ON timing("case");
CREATE INDEX reference_sweep ON reference(sweep);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('sweep',5);
COMMIT;
PRAGMA application_id = 1464419397;
PRAGMA user_version = 1;
