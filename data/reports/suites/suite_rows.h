#pragma once
#include <map>
#include <string>
#include <vector>

#include "data/reports/sweep/report.h"

// Makes the rows of the suites (`presets/README.md`) out of a sweep's cases: each compares a
// vanilla network with its compiled forms.
namespace wide {

/// The result of one form of a network in one phase.
struct SuiteCell {
  Status status = Status::skipped;
  double mean_ms = 0, std_ms = 0, median_ns = 0;
  int64_t samples = 0;
  int64_t peak_bytes = 0;  // counted while it ran; for one that did not fit, the estimate
  const Timing* timing = nullptr;

  bool ok() const { return status == Status::ok; }
};

/// All results for one network, shape, N, dtype, mode and device: by phase, then by form. Forms are
/// "vanilla" (the loop), "optimised", "torch.compile", "compiled".
struct SuiteRow {
  std::string target, shape;
  int64_t n = 1;
  std::string dtype, mode, device;
  std::map<std::string, int64_t> axes;  // of its shape
  size_t machine = 0;                   // number by `Apart`, from 1; 0: the report has one machine
  std::map<std::string, std::map<std::string, SuiteCell>> cells;
  std::map<std::string, const Case*> cases;

  int64_t axis(const std::string& name, int64_t otherwise = 0) const;
  /// The result; of status `skipped` if the sweep did not ask for it.
  SuiteCell cell(const std::string& phase, const std::string& form) const;
};

/// The rows of the cases of `targets`, in the report's order; they point into `report`.
std::vector<SuiteRow> suite_rows(const SweepReport& report,
                                 const std::vector<std::string>& targets);

/// "success", "OOM", "skipped", or the status as it is stored.
std::string suite_status(Status status);

}  // namespace wide
