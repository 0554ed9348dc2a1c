#pragma once
#include "engine/model/portable.h"

namespace wide {

/// A portable program for every batch size in `range`, by calling `at`, which makes one for a
/// single size, for `batch` and a few other sizes. If these programs differ in more than sizes, or
/// `range` is nullopt, returns the one for `batch`, with the reason in `fixed_because`. Throws the
/// Errors of `at(batch)`.
Portable dynamic_portable(int64_t batch, const std::optional<BatchRange>& range,
                          const std::function<Portable(int64_t batch)>& at);

/// The program of `portable` for batches of this size, which it must accept.
Program program_at(const Portable& portable, int64_t batch);

/// "any batch", "batches of 2 to 64", "batches of 32": the batch sizes of `portable`, which was
/// made for `batch`; with the reason if it unexpectedly accepts only that size.
std::string batch_text(const Portable& portable, int64_t batch);

}  // namespace wide
