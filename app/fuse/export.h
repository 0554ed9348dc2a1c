#pragma once
#include "app/fuse/fuse.h"

namespace wide {

/// Throws Error (exit code 2) for a path of unknown extension or in no folder: before the work.
void check_export_path(const std::string& path);

/// Writes the wide program of n models to every path, as ATen operators alone. Its answers are
/// held against `outputs`, those of the checked wide program, first; throws Error (exit code 4)
/// where they differ. Returns what to tell the user.
std::vector<std::string> export_wide(Subject& subject, int64_t n, const FuseOptions& options,
                                     const Tensors& outputs, const std::vector<std::string>& paths);

}  // namespace wide
