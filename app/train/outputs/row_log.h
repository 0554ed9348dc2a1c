#pragma once
#include <string>
#include <vector>

#include "app/train/prepare.h"
#include "app/train/run/state.h"

namespace wide {

enum class LogKind { none, lines, csv, json_lines, events };

/// What `--log` asks for: "" nothing, "-" lines of CSV on stdout, FILE.csv, FILE.jsonl, or "DIR/"
/// TensorBoard's event files. Throws Error for another name.
LogKind log_kind(const std::string& path);

/// `--log`: a row for each model and evaluation, written while the run goes on. Over ranks the one
/// that logs has the rows of all models.
class RowLog {
 public:
  /// Rewrites the files with the rows of `history`, the evaluations before a resume: then the log
  /// has each evaluation once, and none from after the saved state. Event files are
  /// "DIR/model-0007/events...". Throws Error (exit code 1) if files cannot be written.
  RowLog(const std::string& path, const Prepared& run, const std::vector<Evaluated>& history);
  void add(const Evaluated& row);

 private:
  std::string head() const;
  std::string event_head(size_t model, double wall_s) const;
  std::string text_of(const Evaluated& row, size_t model) const;

  std::string path_;
  LogKind kind_;
  const Prepared& run_;
  const std::vector<ModelSettings>& models_;
};

}  // namespace wide
