#pragma once
#include <string>

#include "app/fuse/subject.h"

namespace wide {

/// "model-07.safetensors": the numbers of all n models have equally many digits.
std::string unstacked_name(int64_t model, int64_t n);

/// Throws Error (exit code 1) if the folder cannot be made or written to.
void check_unstack_folder(const std::string& folder);

/// Writes model-0.safetensors, model-1.safetensors, ... into `folder`: the weights of the n models,
/// in the dtype that they ran in, under all names that a state_dict has for them.
/// Tensors that no checkpoint had (old counters, non-persistent buffers) are left out. Returns a
/// line for the user.
std::string unstack(const Subject& subject, int64_t n, const std::string& folder);

}  // namespace wide
