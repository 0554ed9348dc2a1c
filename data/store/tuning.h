#pragma once
#include <memory>
#include <mutex>
#include <string>

#include "data/store/store.h"
#include "engine/lower/tune/tuning.h"

namespace wide {

class Connection;

/// Remembers in a store which strategy won, for each machine apart: the same file may be used by
/// several. Throws Error as the store does.
class StoredTuning : public TuningTable {
 public:
  /// `machine` names what times depend on and a TuningKey lacks: the processor or the GPU.
  StoredTuning(const std::string& path, std::string machine, const StoreOptions& options = {});
  ~StoredTuning() override;

  std::optional<TuningEntry> lookup(const TuningKey& key) override;
  void store(const TuningKey& key, const TuningEntry& entry) override;

 private:
  std::mutex mutex_;
  std::unique_ptr<Connection> connection_;
  std::string machine_;
};

}  // namespace wide
