#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "data/reports/sweep/report_json.h"
#include "tests/data/python.h"
#include "tests/data/store/stored.h"

namespace wide::store_failures_test {
namespace {

/// The one line an Error of exit code 1 says.
std::string refused(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    const std::string line = e.what();
    EXPECT_EQ(e.exit_code(), 1) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_EQ(line.front(), '[') << line;
    for (const char* part : {"got ", ", expected ", "; try "})
      EXPECT_NE(line.find(part), std::string::npos) << line;
    return line;
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

/// Runs `work` in a process of its own, and returns what it returned (or 100 + the signal).
int in_child(const std::function<int()>& work) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    int result = 99;
    try {
      result = work();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "child: %s\n", e.what());
    }
    std::fflush(nullptr);
    _exit(result);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

/// Root writes everywhere, unless it gives that up.
void obey_permissions() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  syscall(SYS_capset, &header, data);
}

class StoreFailures : public ::testing::Test {
 protected:
  /// Stores cases until the store refuses; returns how many it acknowledged.
  static int64_t fill(Store& store, int64_t cases, std::string* why) {
    std::vector<int64_t> ns(static_cast<size_t>(cases));
    for (size_t i = 0; i < ns.size(); ++i) ns[i] = static_cast<int64_t>(i) + 1;
    int64_t acknowledged = 0;
    try {
      const int64_t id = store.begin(stored_plan("fill", ns));
      for (const int64_t n : ns) {
        store.add_case(id, n - 1, stored_case(n, static_cast<uint64_t>(n)));
        ++acknowledged;
      }
    } catch (const Error& e) {
      *why = e.what();
    }
    return acknowledged;
  }

  /// All that was acknowledged is there, whole, and nothing else; and more can be stored.
  void expect_whole(int64_t acknowledged) {
    Store store = Store::create(path_);
    const SweepReport report = store.load(1);
    ASSERT_EQ(static_cast<int64_t>(report.cases.size()), acknowledged);
    for (const Case& c : report.cases)
      EXPECT_EQ(to_json(c), to_json(stored_case(c.n, static_cast<uint64_t>(c.n))));
    SQLite::Database db(path_);
    EXPECT_EQ(db.execAndGet("PRAGMA integrity_check").getString(), "ok");
    std::string why;
    EXPECT_EQ(fill(store, 2, &why), 2) << why;
  }

  Scratch folder_;
  std::string path_ = folder_ / "results.db";
};

TEST_F(StoreFailures, AFullDisk) {
  int64_t acknowledged = 0;
  std::string why;
  {
    StoreOptions options;
    options.max_pages = 150;
    Store store = Store::create(path_, options);
    acknowledged = fill(store, 500, &why);
  }
  EXPECT_GT(acknowledged, 3);
  EXPECT_LT(acknowledged, 500);
  EXPECT_HAS(why, "got a full disk, expected space");
  expect_whole(acknowledged);
}

TEST_F(StoreFailures, ALimitOnTheSizeOfFiles) {
  const std::string said = folder_ / "said";
  const int code = in_child([&] {
    const rlimit limit{1'000'000, 1'000'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Store store = Store::create(path_);
    std::string why;
    const int64_t acknowledged = fill(store, 500, &why);
    write_text(said, why);
    return static_cast<int>(acknowledged);
  });
  ASSERT_GT(code, 3);
  ASSERT_LT(code, 99);  // SIGXFSZ would be more
  EXPECT_HAS(read_text(said), "ulimit -f allows, 1.0 MB");
  expect_whole(code);
}

TEST_F(StoreFailures, ALockThatIsHeldTooLong) {
  StoreOptions options;
  options.busy_ms = 200;
  Store store = Store::create(path_, options);
  const int64_t id = store.begin(stored_plan("s", {1, 2}));
  store.add_case(id, 0, stored_case(1, 1));
  SQLite::Database other(path_, SQLite::OPEN_READWRITE);
  other.exec("BEGIN IMMEDIATE");
  const auto start = std::chrono::steady_clock::now();
  const std::string why = refused([&] { store.add_case(id, 1, stored_case(2, 2)); });
  EXPECT_HAS(why, "got a lock that another process held for 0.2 s");
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(150));
  EXPECT_EQ(store.load(id).cases.size(), 1u);  // reading waits for nobody
  EXPECT_EQ(Store::read(path_).load(id).cases.size(), 1u);
  other.exec("ROLLBACK");
  store.add_case(id, 1, stored_case(2, 2));
  EXPECT_EQ(store.load(id).cases.size(), 2u);
}

TEST_F(StoreFailures, ReadOnlyFilesAndFoldersCanBeReadAndNotWritten) {
  std::string why;
  {
    Store store = Store::create(path_);
    ASSERT_EQ(fill(store, 3, &why), 3);
    store.finish(1, "complete", {});
  }
  const std::string said = folder_ / "said";
  for (const bool folder_too : {false, true}) {
    ASSERT_EQ(chmod(path_.c_str(), 0444), 0);
    if (folder_too) {
      ASSERT_EQ(chmod(folder_.path().c_str(), 0555), 0);
    }
    const int code = in_child([&] {
      obey_permissions();
      if (access(path_.c_str(), W_OK) == 0) return 98;
      const std::string line = refused([&] { Store::create(path_); });
      EXPECT_HAS(line, "got a read-only file or folder");
      if (folder_too) refused([&] { Store::create(folder_ / "new.db"); });
      Store store = Store::read(path_);
      EXPECT_EQ(store.load(1).cases.size(), 3u);
      EXPECT_HAS(refused([&] { store.remove(1); }), "read-only");
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    chmod(folder_.path().c_str(), 0755);
    chmod(path_.c_str(), 0644);
    EXPECT_EQ(code, 0) << "folder too: " << folder_too;
  }
  Store store = Store::create(path_);
  EXPECT_EQ(store.load(1).cases.size(), 3u);
}

TEST_F(StoreFailures, ANewerSchemaIsRefusedAndLeftAlone) {
  Store::create(path_).begin(stored_plan("s", {1}));
  SQLite::Database(path_, SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 99");
  const std::string before = read_text(path_);
  for (const auto open : {Store::create, Store::read}) {
    const std::string why = refused([&] { open(path_, {}); });
    EXPECT_HAS(why, "got schema 99, expected at most 8; try the newer workbench");
  }
  EXPECT_EQ(read_text(path_), before);
}

TEST_F(StoreFailures, WhatIsNoStoreIsRefusedAndLeftAlone) {
  const std::string other = folder_ / "other.db", text = folder_ / "text.db";
  SQLite::Database(other, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE people(name TEXT)");
  write_text(text, std::string(5000, 'x'));
  const std::string before = read_text(other);
  for (const auto open : {Store::create, Store::read}) {
    EXPECT_HAS(refused([&] { open(text, {}); }), "got a file that is no database");
    EXPECT_HAS(refused([&] { open(other, {}); }), "got an SQLite file of another program");
    EXPECT_HAS(refused([&] { open(folder_.path(), {}); }), "got a folder");
  }
  EXPECT_EQ(read_text(text), std::string(5000, 'x'));
  EXPECT_EQ(read_text(other), before);
  EXPECT_HAS(refused([&] { Store::create(folder_ / "none/x.db"); }), "got no such folder as");
  EXPECT_HAS(refused([&] { Store::read(folder_ / "none.db"); }), "got no such file");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none.db"));
}

TEST_F(StoreFailures, DamagedFiles) {
  std::string why;
  {
    Store store = Store::create(path_);
    ASSERT_EQ(fill(store, 40, &why), 40);
  }
  const std::string whole = read_text(path_);
  ASSERT_GT(whole.size(), 100'000u);
  std::string torn = whole.substr(0, whole.size() / 2 + 1000);
  write_text(path_, torn);
  EXPECT_HAS(refused([&] { Store::read(path_).load(1); }), "got a damaged file");
  torn = whole;
  for (size_t i = 8192; i < torn.size(); ++i) torn[i] = static_cast<char>(i * 37);
  write_text(path_, torn);
  EXPECT_HAS(refused([&] { Store::read(path_).load(1); }), "got a damaged file");
  refused([&] { Store::create(path_).begin(stored_plan("s", {1})); });
  write_text(path_, whole);
  EXPECT_EQ(Store::read(path_).load(1).cases.size(), 40u);
}

TEST_F(StoreFailures, OlderSchemasAreReadAndBroughtUpToDate) {
  const std::string sql =
      read_text(std::string(std::getenv("WORKBENCH_SOURCE")) + "/tests/data/store/store_v1.sql");
  ASSERT_FALSE(sql.empty());
  SQLite::Database(path_, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec(sql);
  const std::string before = read_text(path_);
  const auto check = [](Store& store) {
    EXPECT_EQ(store.find("base"), 3);
    const SweepReport report = store.load(3);
    EXPECT_EQ(report.environment.cpu, "Some CPU");
    EXPECT_EQ(report.environment.governor, "performance");
    EXPECT_EQ(report.environment.throttles, -1);  // version 1 did not know of it
    EXPECT_TRUE(report.changes.empty());
    ASSERT_EQ(report.cases.size(), 2u);
    const Case& c = report.cases[1];
    EXPECT_EQ(c.n, 5);
    EXPECT_EQ(c.mode, "default");  // versions before 4 called it eager
    EXPECT_EQ(c.baselines.at(0).samples_ns,
              (std::vector<double>{5000, 5078.125, 5156.25, 5234.375}));
    ASSERT_EQ(c.trials.size(), 2u);
    EXPECT_EQ(c.trials[0].speedup->vs_best.high, 4.25);
    EXPECT_EQ(c.trials[0].timing.bytes_share, 0.5);
    EXPECT_EQ(c.trials[0].timing.cold_ns, 0);
    EXPECT_EQ(c.trials[0].correctness->max_rel, 1e-7);
    EXPECT_EQ(c.trials[1].reason, "no \"rule\"");
    EXPECT_EQ(store.load(5).state, "interrupted");
    EXPECT_EQ(store.missing(5), std::vector<int64_t>{1});
  };
  Store reader = Store::read(path_);
  check(reader);
  EXPECT_EQ(read_text(path_), before);  // reading changes nothing
  Store store = Store::create(path_);
  check(store);
  EXPECT_EQ(SQLite::Database(path_).execAndGet("PRAGMA user_version").getInt(), 8);
  const auto setting = [&](const std::string& key) {
    return SQLite::Database(path_)
        .execAndGet("SELECT group_concat(settings ->> '$.\"" + key + "\"') FROM sweep")
        .getString();
  };
  EXPECT_EQ(setting("of cases"), "0123abcd");
  EXPECT_EQ(setting("of plan"), "");  // versions before 8 called it so
  EXPECT_EQ(setting("--part"), "2/3");
  store.export_sweep(3, folder_ / "three.db");
  Store exported = Store::read(folder_ / "three.db");
  EXPECT_EQ(to_json(exported.load(1).cases[0]), to_json(store.load(3).cases[0]));
  EXPECT_EQ(store.begin(stored_plan("new", {1})), 6);
}

TEST_F(StoreFailures, SeveralProcessesWriteAtOnce) {
  constexpr int kProcesses = 4, kSweeps = 6;
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      int result = 0;
      try {
        // All of them want to make the file.
        Store store = Store::create(path_);
        for (int s = 0; s < kSweeps; ++s) {
          const int64_t id = store.begin(stored_plan("p" + std::to_string(p), {1, 2}));
          for (int64_t n : {1, 2})
            store.add_case(id, n - 1, stored_case(n, static_cast<uint64_t>(p)));
          store.finish(id, "complete", {});
          if (store.sweeps(5).empty()) result = 1;
        }
      } catch (const std::exception& e) {
        std::fprintf(stderr, "child: %s\n", e.what());
        result = 2;
      }
      _exit(result);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  Store store = Store::read(path_);
  const auto rows = store.sweeps();
  ASSERT_EQ(rows.size(), static_cast<size_t>(kProcesses * kSweeps));
  for (const SweepRow& row : rows) {
    EXPECT_EQ(row.state, "complete");
    const uint64_t seed = static_cast<uint64_t>(row.name[1] - '0');
    const SweepReport report = store.load(row.id);
    ASSERT_EQ(report.cases.size(), 2u);
    EXPECT_EQ(to_json(report.cases[1]), to_json(stored_case(2, seed)));
  }
}

// 200 000 trials with 25 samples each: opened and listed while one waits.
TEST(StoreTiming, ALargeStoreOpensAndListsAtOnce) {
  const Scratch folder;
  const std::string path = folder / "large.db";
  {
    Store store = Store::create(path);
    const int64_t id = store.begin(stored_plan("s", {1}));
    store.add_case(id, 0, stored_case(1, 1));
    store.finish(id, "complete", {});
    SQLite::Database db(path, SQLite::OPEN_READWRITE);
    db.exec(
        "BEGIN; "
        "WITH r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 200) "
        "INSERT INTO sweep(name, command, state, environment, started, settings, uuid) "
        "SELECT 's' || i, 'c', 'complete', 1, '2026', '{}', i FROM r; "
        "WITH r(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i < 9) "
        "INSERT INTO \"case\"(sweep, position, state, target, shape, dtype, device, mode, phase, "
        "n, "
        "strategies) SELECT s.id, i, 'done', 'linear', 'B1', 'f32', 'cpu', 'default', 'forward', "
        "i, "
        "'[]' FROM sweep AS s, r WHERE s.id > 1; "
        "WITH r(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i < 99) "
        "INSERT INTO trial(\"case\", position, strategy, status, chosen) "
        "SELECT c.id, i, 's' || i, 'ok', 0 FROM \"case\" AS c, r WHERE c.sweep > 1; "
        "INSERT INTO timing(\"case\", trial, position, name, kind, median_ns, more) "
        "SELECT \"case\", id, position, strategy, 'candidate', 1.5, '{}' FROM trial WHERE id > 3; "
        "INSERT INTO samples SELECT id, randomblob(200) FROM timing WHERE id > 5; "
        "COMMIT");
  }
  const auto start = std::chrono::steady_clock::now();
  Store store = Store::read(path);
  const auto rows = store.sweeps();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  int64_t trials = 0;
  for (const SweepRow& row : rows)
    for (const auto& [status, count] : row.trials) trials += count;
  EXPECT_EQ(rows.size(), 201u);
  EXPECT_EQ(trials, 200'003);
  EXPECT_EQ(store.facts().samples, 5'000'125);
  EXPECT_LT(seconds, 2);
  std::printf("opened and listed in %.3f s\n", seconds);
}

}  // namespace
}  // namespace wide::store_failures_test
