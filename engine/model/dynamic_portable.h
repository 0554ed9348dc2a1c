#pragma once
#include "engine/model/portable.h"

namespace wide {

/// The portable program that `at` makes for batches of one size, made once for `batch` and a few
/// times more for others, so that it runs batches of every size in `range`. Where its programs
/// differ in more than sizes, or `range` is nullopt, it is the one for `batch` alone, and
/// `fixed_because` says why. An Error of `at(batch)` itself is thrown on.
Portable dynamic_portable(int64_t batch, const std::optional<BatchRange>& range,
                          const std::function<Portable(int64_t batch)>& at);

/// The program of `portable` for batches of this size, which it must take.
Program program_at(const Portable& portable, int64_t batch);

/// "any batch", "batches of 2 to 64", "batches of 32": what `portable` takes, which was made for
/// `batch`; with the reason where it takes that one size alone and should take others.
std::string batch_text(const Portable& portable, int64_t batch);

}  // namespace wide
