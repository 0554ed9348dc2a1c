#include "engine/lower/tuning.h"

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

std::shared_ptr<TuningTable>& current() {
  static std::shared_ptr<TuningTable> table = std::make_shared<InMemory>();
  return table;
}

}  // namespace

std::string TuningKey::text() const {
  return fmt::format("{} | {} | {} | {} | {} | {} | {} threads | N={}", scope, primitive, config,
                     shape, dtype, device, threads, n);
}

TuningTable& tuning_table() { return *current(); }

void set_tuning_table(std::shared_ptr<TuningTable> table) {
  current() = table ? std::move(table) : std::make_shared<InMemory>();
}

}  // namespace wide
