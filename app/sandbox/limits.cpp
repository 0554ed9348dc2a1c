#include "app/sandbox/limits.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>

#include "data/machine/environment.h"

namespace wide {
namespace {

constexpr rlim_t kStack = rlim_t{8} << 20u;

void lower(int resource, rlim_t most) {
  rlimit limit{};
  getrlimit(resource, &limit);
  limit.rlim_cur = std::min(limit.rlim_cur, most);
  limit.rlim_max = std::min(limit.rlim_max, most);
  setrlimit(resource, &limit);
}

}  // namespace

void limit_process(int64_t mapped, bool device_memory) {
  std::ofstream("/proc/self/oom_score_adj") << 900;
  lower(RLIMIT_CORE, 0);
  lower(RLIMIT_STACK, kStack);
  if (!device_memory) {
    // Slack for the stacks and arenas of threads that have not started yet.
    const int64_t slack = (int64_t{1} << 30) + usable_cores() * (int64_t{200} << 20);
    lower(RLIMIT_DATA,
          static_cast<rlim_t>(process_memory().data + available_memory() + slack + mapped));
  }
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

}  // namespace wide
