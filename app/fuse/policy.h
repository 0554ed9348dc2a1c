#pragma once
#include <optional>

#include "app/fuse/subject.h"
#include "app/sandbox/policy.h"

namespace wide {

/// The sandbox policy for reading the files that a subject names; nullopt if it names none: a
/// registered network with random weights and inputs needs no sandbox.
std::optional<SandboxPolicy> policy_of(const SubjectOptions& options);

}  // namespace wide
