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

/// Throws Error for words that mean nothing, before anything is read.
void check_predict(const PredictOptions& options);

/// What the models of a run say of the rows of a file, in batches, written to `out`: [S, ...], or
/// [N, S, ...] where nothing is reduced. Returns a line about it.
std::string predict(const PredictOptions& options, const SavedRun& saved);

}  // namespace wide
