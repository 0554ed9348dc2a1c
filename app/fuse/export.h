#pragma once
#include "app/fuse/fuse.h"

namespace wide {

/// Throws Error (exit code 2) for a path with an unknown extension or in a missing folder.
void check_export_path(const std::string& path);

/// Writes the wide program of n models to every path, as ATen operators alone. First compares its
/// outputs with `outputs`, those of the wide program whose check is `correctness`; throws Error
/// (exit code 4) if they differ by more than twice what the check allows. Returns lines for the
/// user.
std::vector<std::string> export_wide(Subject& subject, int64_t n, const FuseOptions& options,
                                     const Correctness& correctness, const Tensors& outputs,
                                     const std::vector<std::string>& paths);

}  // namespace wide
