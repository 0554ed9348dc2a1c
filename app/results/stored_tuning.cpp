#include "app/results/stored_tuning.h"

#include "app/version.h"
#include "data/machine/environment.h"
#include "data/store/tuning.h"
#include "engine/error.h"

namespace wide {
namespace {

/// A store that cannot be written now (full, locked, read-only) costs measuring again, not the
/// work at hand: whoever stores results says what is wrong with it.
class Lenient final : public TuningTable {
 public:
  Lenient(const std::string& db, const std::string& machine) : stored_(db, machine, options()) {}

  std::optional<TuningEntry> lookup(const TuningKey& key) override {
    try {
      return stored_.lookup(key);
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  void store(const TuningKey& key, const TuningEntry& entry) override {
    try {
      stored_.store(key, entry);
    } catch (const Error&) {
      return;
    }
  }

 private:
  static StoreOptions options() {
    StoreOptions options;
    options.durable = false;  // a compile is not to wait for the disk
    return options;
  }

  StoredTuning stored_;
};

}  // namespace

void use_stored_tuning(const std::string& db) {
  static std::string current;
  if (db == current) return;
  // What wins depends on the program too: another one has other kernels to choose from.
  const std::string machine = processor_name() + ", " + version_line();
  set_tuning_table(db.empty() ? nullptr : std::make_shared<Lenient>(db, machine));
  current = db;
}

}  // namespace wide
