#pragma once
#include <optional>

#include "app/fuse/subject.h"
#include "app/sandbox/policy.h"

namespace wide {

/// What the files that a subject names take to be read; nullopt where it names none: a registered
/// network with what it draws itself needs no sandbox.
std::optional<SandboxPolicy> policy_of(const SubjectOptions& options);

}  // namespace wide
