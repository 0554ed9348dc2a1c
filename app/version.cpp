#include "app/version.h"

#include "workbench_version.h"

namespace wide {

std::string version() { return WORKBENCH_VERSION; }

std::string git_state() {
  return WORKBENCH_GIT_DIRTY ? WORKBENCH_GIT_HASH "-dirty" : WORKBENCH_GIT_HASH;
}

std::string version_line() { return "workbench " + version() + " (" + git_state() + ")"; }

}  // namespace wide
