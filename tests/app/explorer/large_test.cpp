// A store of 200 000 trials and 5 million samples opens at once, and no frame on it is long.
#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

#include "tests/app/explorer/stored.h"

namespace wide::large_test {
namespace {

using Clock = std::chrono::steady_clock;

/// Of this process: what is asked for holds on a machine that has nothing else to do, which that of
/// a test may not be.
double processor_s() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

constexpr int kCases = 20'000, kTrials = 10, kSamples = 25;

/// One sweep of 250 targets at 80 Ns, 10 strategies each: written by SQL, since results that come
/// one by one would take minutes.
void fill(const std::string& path) {
  StoredCases plan = stored_plan("large", {});
  plan.cases.clear();
  {
    Store store = Store::create(path);
    store.finish(store.begin(plan), "complete", {});
  }
  SQLite::Database db(path, SQLite::OPEN_READWRITE);
  db.exec("PRAGMA synchronous = OFF");
  SQLite::Transaction transaction(db);
  db.exec(fmt::format(
      "WITH RECURSIVE k(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM k WHERE i + 1 < {0}) INSERT "
      "INTO "
      "\"case\"(id, sweep, position, state, target, shape, dtype, device, mode, phase, n, "
      "strategies, more) SELECT i + 1, 1, i, 'done', 'target' || (i / 80), 'B16 D256', 'f32', "
      "'cpu', 'default', 'forward', 1 + i % 80, '[]', '{{\"other_load\":0.0,\"disturbed\":false}}' "
      "FROM k;"
      "WITH RECURSIVE k(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM k WHERE i + 1 < {1}) INSERT "
      "INTO "
      "trial(id, \"case\", position, strategy, status, reason, chosen, verdict, vs_loop, "
      "vs_loop_low, vs_loop_high, vs_best, vs_best_low, vs_best_high, best_baseline) SELECT i + 1, "
      "1 + i / {2}, i % {2}, 's' || (i % {2}), CASE i % 97 WHEN 0 THEN 'incorrect' ELSE 'ok' END, "
      "NULL, i % {2} = 0, 'FASTER', 1 + i * 0.37 % 9, 0.9, 11, 1 + i * 0.73 % 7, 0.9, 9, 'threads' "
      "FROM k;"
      "INSERT INTO timing(id, \"case\", trial, position, name, kind, median_ns, q1_ns, q3_ns, "
      "outliers, calls_per_sample, first_call_ns, peak_bytes, more) SELECT id, \"case\", id, "
      "position, strategy, 'candidate', 1000.0 + id * 7919 % 100000, 900.0, 1100.0, 0, 10, 1e6, "
      "4096, '{{\"cold_ns\":null,\"with_packing_ns\":null,\"flops\":0.0,\"bytes\":0.0,\"steps\":0,"
      "\"bound\":null}}' FROM trial;"
      "INSERT INTO correctness(trial, max_rel, eager_max_rel, tolerance, isolated, ordered, pass, "
      "more) SELECT id, 1e-7 * (1 + id % 13), 1e-7, 1e-5, 1, 1, id % 97 <> 1, '{{}}' FROM trial;",
      kCases, kCases * kTrials, kTrials));
  std::string sample("\x40\x8f\x40\x00\x00\x00\x00\x00", 8), blob;  // 1000 ns
  for (int i = 0; i < kSamples; ++i) blob += sample;
  SQLite::Statement insert(db, "INSERT INTO samples(timing, ns) SELECT id, ? FROM timing");
  insert.bind(1, blob.data(), static_cast<int>(blob.size()));
  insert.exec();
  transaction.commit();
}

TEST(ExplorerLargeSerial, OpensAtOnceAndScrollsSortsAndFiltersWithoutALongFrame) {
  StoreFile file;
  fill(file.path());
  const auto begun = Clock::now();
  const double busy_s = processor_s();
  Settings settings;
  settings.view = "plot";
  auto screen = screen_on(file.path(), settings);
  Driver driver(*screen);
  Library& library = screen->explorer().library;
  while (library.trials().shown().empty() && seconds_since(begun) < 60) {
    screen->frame();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const double opened_s = seconds_since(begun);
  EXPECT_EQ(library.trials().shown().size(), static_cast<size_t>(kCases * kTrials));
  EXPECT_LT(processor_s() - busy_s, 2);
  const StoreFacts facts = Store::read(file.path()).facts();
  EXPECT_EQ(facts.samples, 5'000'000);
  driver.settle();

  screen->times = {};
  driver.wheel("trial 1", -500);
  driver.wheel("over best", -5000);
  driver.click("time");
  driver.settle();
  driver.click("target");
  driver.settle();
  driver.click("filter");
  driver.type("strategy:s3 n>=40 speedup>2 status:ok");
  driver.settle();
  EXPECT_LT(library.trials().shown().size(), 10'000u);
  EXPECT_GT(library.trials().shown().size(), 1'000u);
  screen->explorer().show("matrix");
  driver.settle();
  driver.click("target3");
  driver.settle();
  driver.wheel("over best", 5000);
  driver.settle();
  driver.click("trial 2");
  driver.settle();
  EXPECT_TRUE(driver.sees("25 samples"));
  EXPECT_LT(*std::max_element(screen->times.cpu_ms.begin(), screen->times.cpu_ms.end()), 100);
  RecordProperty("opened_ms", static_cast<int>(1e3 * opened_s));
  RecordProperty("worst_frame_ms", static_cast<int>(screen->times.worst_ms()));
  std::printf("opened in %.2f s; %zu frames, the longest %.1f ms\n", opened_s,
              screen->times.work_ms.size(), screen->times.worst_ms());
}

}  // namespace
}  // namespace wide::large_test
