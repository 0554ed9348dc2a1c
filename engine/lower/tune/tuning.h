#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace wide {

/// The choices for one input size, to be reused for another size without measuring: the number of
/// ranges, and strategies by a call's first node in Program(1) and its rule.
struct SizeChoices {
  int ranges = 0;
  std::map<std::pair<int32_t, std::string>, std::string> strategies;
};

/// The key of a measurement in the tuning table: everything that the best strategy depends on.
struct TuningKey {
  /// "network": won when whole networks were timed. "call": won when this call alone was timed.
  std::string scope;
  std::string primitive, config;  // the canonical text of the primitive's configuration
  std::string shape = {};         // one model's inputs: "16,256 256,256 256", `*` where shared
  std::string dtype = {}, device;
  int threads = 0;
  int64_t n = 0;  // number of models at once

  std::string text() const;
};

struct TuningEntry {
  std::string strategy;
  double median_ns = 0;
};

/// Measurements of earlier compilations. Can be used from any thread.
class TuningTable {
 public:
  virtual ~TuningTable() = default;
  virtual std::optional<TuningEntry> lookup(const TuningKey& key) = 0;
  virtual void store(const TuningKey& key, const TuningEntry& entry) = 0;
};

/// The table that the engine uses: one in memory, until `set_tuning_table` sets another.
TuningTable& tuning_table();
/// Null: a new, empty table in memory. Can be called at any time, from any thread.
void set_tuning_table(std::shared_ptr<TuningTable> table);

}  // namespace wide
