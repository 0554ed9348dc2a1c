#include "app/results/stored_tuning.h"

#include <map>
#include <mutex>

#include "app/version.h"
#include "data/machine/environment.h"
#include "data/machine/gpu.h"
#include "data/machine/load.h"
#include "data/store/tuning.h"
#include "engine/error.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {

/// The share of the cores that other programs used lately, updated every half second.
class LoadLately {
 public:
  double operator()() {
    const std::lock_guard lock(mutex_);
    if (const double now = now_s(); now - since_s_ >= kWindow_s) {
      load_ = watch_.other_load();
      watch_ = LoadWatch();
      since_s_ = now;
    }
    return load_;
  }

 private:
  static constexpr double kWindow_s = 0.5;
  std::mutex mutex_;
  LoadWatch watch_;
  double since_s_ = now_s(), load_ = 0;
};

/// If the store cannot be written (full, locked, read-only), results are measured again and the
/// work goes on: saving the results reports the error.
class Lenient final : public TuningTable {
 public:
  Lenient(const std::string& db, const std::string& machine, std::function<double()> other_load)
      : stored_(db, machine, options()), other_load_(std::move(other_load)) {}

  std::optional<TuningEntry> lookup(const TuningKey& asked) override {
    const TuningKey key = by_name(asked);
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = disturbed_.find(key.text()); at != disturbed_.end()) return at->second;
    }
    try {
      return stored_.lookup(key);
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  void store(const TuningKey& asked, const TuningEntry& entry) override {
    const TuningKey key = by_name(asked);
    const bool disturbed = other_load_() > kDisturbedShare;
    {
      const std::lock_guard lock(mutex_);
      disturbed_.erase(key.text());
      if (disturbed) disturbed_.emplace(key.text(), entry);
    }
    if (disturbed) return;
    try {
      stored_.store(key, entry);
    } catch (const Error&) {
      return;
    }
  }

 private:
  /// Replaces a GPU's index such as `cuda:0` by its model name.
  static TuningKey by_name(TuningKey key) {
    if (!key.device.empty()) key.device = device_key(c10::Device(key.device));
    return key;
  }
  static StoreOptions options() {
    StoreOptions options;
    options.durable = false;  // compiling must not wait for the disk
    return options;
  }

  StoredTuning stored_;
  std::function<double()> other_load_;
  std::mutex mutex_;
  std::map<std::string, TuningEntry> disturbed_;  // by key; not stored
};

}  // namespace

void use_stored_tuning(const std::string& db) {
  static std::string current;
  if (db == current) return;
  const auto lately = std::make_shared<LoadLately>();
  set_tuning_table(db.empty() ? nullptr : lasting_tuning(db, [lately] { return (*lately)(); }));
  current = db;
}

std::shared_ptr<TuningTable> lasting_tuning(const std::string& db,
                                            std::function<double()> other_load) {
  // Another version of the program has other kernels, so its results are kept apart.
  const std::string machine = processor_name() + ", " + version_line();
  return std::make_shared<Lenient>(db, machine, std::move(other_load));
}

}  // namespace wide
