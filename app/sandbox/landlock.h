#pragma once
#include <string>
#include <vector>

namespace wide {

/// The version of Landlock that the kernel offers; 0: none.
int landlock_version();

/// What stays open to a thread under Landlock. Nothing of it can be written to.
struct Readable {
  std::vector<std::string> paths;    // files, and folders with all that is in them
  std::vector<std::string> folders;  // may be listed
  std::vector<std::string> devices;  // may be written to as well, as drivers want it
};

/// From now on this thread and those it starts reach nothing else by name, no network and no other
/// process. Paths that are not there are left out. Does nothing where the kernel has no Landlock;
/// throws Error with exit code 1 where it has and refuses.
void restrict_paths(const Readable& readable);

}  // namespace wide
