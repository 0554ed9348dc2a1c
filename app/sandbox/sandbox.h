#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/sandbox/group.h"
#include "app/sandbox/policy.h"

// Files that come from elsewhere are opened in a process of their own, the sandbox. It has given up
// its rights: it reads the files that were named, computes, and asks the process outside for all
// else.
namespace wide {

/// What the kernel does not offer for a sandbox, a line each; empty where it offers everything. Do
/// not call this in a sandbox, which may not ask the kernel any more.
std::vector<std::string> sandbox_lacks();

/// Runs `work` in a sandbox, and returns what it returns. Call it before anything starts a thread
/// or touches LibTorch. Throws Cancelled when asked to end, and Error with exit code 5 when the
/// sandbox crashes, hangs or runs out of memory. `meetings` makes, once the sandbox is there, its
/// way to the other processes of its group.
int run_in_sandbox(const SandboxPolicy& policy, const std::function<int()>& work,
                   const MakeMeetings& meetings = {});

/// In a sandbox: says that the work goes on; the process outside takes a long silence for a hang.
/// Elsewhere it does nothing.
void heartbeat();

}  // namespace wide
