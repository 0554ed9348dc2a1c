#pragma once
#include <string>

#include "app/train/run/saving.h"

namespace wide {

struct PredictOptions {
  std::string folder, data, out;
  std::string use = "best", reduce = "mean", apply;  // apply "": as the loss has it
  int64_t top = 0;                                   // 0: all models
  int threads = 0;
};

/// Throws Error for unknown values of the options, before any file is read.
void check_predict(const PredictOptions& options);

/// Runs the models of a run on the rows of a file, in batches, and writes their outputs to `out`:
/// [S, ...], or [N, S, ...] without reducing. Returns a line for the user.
std::string predict(const PredictOptions& options, const SavedRun& saved);

}  // namespace wide
