#pragma once
#include <memory>
#include <string>

#include "data/reports/run/run_history.h"
#include "data/store/store.h"

namespace wide {

/// Reads training runs for a viewer: a list, and the curves of one run, of which only new values
/// are read each time. The store at `path` must exist.
class RunReader {
 public:
  explicit RunReader(const std::string& path);
  ~RunReader();
  RunReader(const RunReader&) = delete;
  RunReader& operator=(const RunReader&) = delete;

  std::vector<RunRow> runs(int64_t limit);
  /// The run `id` as it is now; nullptr if it was deleted. `before`: the result of an earlier call,
  /// or null. Its curves are reused unless the run was resumed or is another one; `before` itself
  /// is returned if nothing is new.
  std::shared_ptr<const RunHistory> read(int64_t id, std::shared_ptr<const RunHistory> before);

 private:
  std::unique_ptr<Connection> connection_;
};

}  // namespace wide
