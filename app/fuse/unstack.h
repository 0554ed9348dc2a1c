#pragma once
#include <string>

#include "app/fuse/subject.h"

namespace wide {

/// model-07.safetensors: numbers of the n models have one length.
std::string unstacked_name(int64_t model, int64_t n);

/// Throws Error (exit code 1) where the folder cannot be made or written to: before the work.
void check_unstack_folder(const std::string& folder);

/// Writes model-0.safetensors, model-1.safetensors, ... into `folder`:
/// the weights that the n models were given, in the dtype that they ran in, under the network's own
/// names, of tied ones the first. Tensors that no checkpoint had (counters of old files, buffers
/// that are not saved) are left out. Returns what to tell the user.
std::string unstack(const Subject& subject, int64_t n, const std::string& folder);

}  // namespace wide
