#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/sandbox/group.h"
#include "app/sandbox/policy.h"

// Files that come from elsewhere are opened in a process of their own, the sandbox. It gives up its
// permissions first: it can read the files that its policy names and compute; for all else it asks
// the process outside.
namespace wide {

class RankAllGather;
using MakeAllGather = std::function<std::unique_ptr<RankAllGather>()>;

/// What the kernel lacks for a sandbox, one line each; empty if it lacks nothing. Must not be
/// called inside a sandbox, where these system calls are forbidden.
std::vector<std::string> sandbox_lacks();

/// Runs `work` in a sandbox, and returns what it returns. Call it before anything starts a thread
/// or touches LibTorch. Throws Cancelled when asked to end, and Error with exit code 5 when the
/// sandbox crashes, hangs or runs out of memory. `all_gather` is called after the fork and connects
/// the sandbox to the other ranks of its group.
int run_in_sandbox(const SandboxPolicy& policy, const std::function<int()>& work,
                   const MakeAllGather& all_gather = {});

/// In a sandbox: tells the process outside that the work goes on; without it, that process assumes
/// a hang. Does nothing elsewhere.
void heartbeat();

}  // namespace wide
