#include "data/store/tuning.h"

#include "data/machine/environment.h"
#include "data/store/connection.h"

namespace wide {

StoredTuning::StoredTuning(const std::string& path, std::string machine,
                           const StoreOptions& options)
    : connection_(std::make_unique<Connection>(path, options, Access::create)),
      machine_(std::move(machine)) {}

StoredTuning::~StoredTuning() = default;

std::optional<TuningEntry> StoredTuning::lookup(const TuningKey& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return connection_->read([&]() -> std::optional<TuningEntry> {
    Query query(*connection_,
                "SELECT strategy, median_ns FROM tuning WHERE machine = ? AND key = ?", machine_,
                key.text());
    if (!query.step()) return std::nullopt;
    return TuningEntry{query.text(0), query.at(1).getDouble()};
  });
}

void StoredTuning::store(const TuningKey& key, const TuningEntry& entry) {
  const std::lock_guard<std::mutex> lock(mutex_);
  connection_->write([&] {
    Query(*connection_,
          "INSERT INTO tuning(machine, key, strategy, median_ns, date) VALUES(?, ?, ?, ?, ?) ON "
          "CONFLICT(machine, key) DO UPDATE SET strategy = excluded.strategy, median_ns = "
          "excluded.median_ns, date = excluded.date",
          machine_, key.text(), entry.strategy, entry.median_ns, utc_now())
        .run();
  });
}

}  // namespace wide
