#include "engine/lower/tune/tuning.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

namespace wide {
namespace {

class InMemory final : public TuningTable {
 public:
  std::optional<TuningEntry> lookup(const TuningKey& key) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = entries_.find(key.text());
    return it == entries_.end() ? std::nullopt : std::optional(it->second);
  }
  void store(const TuningKey& key, const TuningEntry& entry) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_[key.text()] = entry;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, TuningEntry> entries_;
};

/// Forwards to the current table. Callers of `get` keep the table alive while they use it.
class Current final : public TuningTable {
 public:
  std::optional<TuningEntry> lookup(const TuningKey& key) override { return table()->lookup(key); }
  void store(const TuningKey& key, const TuningEntry& entry) override {
    table()->store(key, entry);
  }
  void set(std::shared_ptr<TuningTable> table) {
    const std::lock_guard<std::mutex> lock(mutex_);
    table_ = std::move(table);
  }

 private:
  std::shared_ptr<TuningTable> table() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return table_;
  }

  std::mutex mutex_;
  std::shared_ptr<TuningTable> table_ = std::make_shared<InMemory>();
};

Current& current() {
  static Current table;
  return table;
}

}  // namespace

std::string TuningKey::text() const {
  return fmt::format("{} | {} | {} | {} | {} | {} | {} threads | N={}", scope, primitive, config,
                     shape, dtype, device, threads, n);
}

TuningTable& tuning_table() { return current(); }

void set_tuning_table(std::shared_ptr<TuningTable> table) {
  current().set(table ? std::move(table) : std::make_shared<InMemory>());
}

}  // namespace wide
