#pragma once
#include <memory>
#include <string>

#include "data/reports/run/run_history.h"
#include "data/store/store.h"

namespace wide {

/// Training runs for those who watch them: a list, and the curves of one, of which only what is
/// new is read again. Reads the store at `path`, which has to be there.
class RunReader {
 public:
  explicit RunReader(const std::string& path);
  ~RunReader();
  RunReader(const RunReader&) = delete;
  RunReader& operator=(const RunReader&) = delete;

  std::vector<RunRow> runs(int64_t limit);
  /// The run `id` as it is now; nullptr where it was deleted. `before` is what an earlier call
  /// gave, or null: its curves are taken over unless the run was resumed or is another one. The
  /// same pointer comes back where nothing is new.
  std::shared_ptr<const RunHistory> read(int64_t id, std::shared_ptr<const RunHistory> before);

 private:
  std::unique_ptr<Connection> connection_;
};

}  // namespace wide
