#pragma once
#include <string>
#include <vector>

namespace wide {

/// The version of Landlock (Linux's module for restricting a process's own file access); 0: none.
int landlock_version();

/// What a thread under Landlock can still reach, for reading only.
struct Readable {
  std::vector<std::string> paths;    // files, and folders with all that is in them
  std::vector<std::string> folders;  // whose names may be listed
  std::vector<std::string> devices;  // may also be written to, which drivers need
};

/// Called by the sandbox: from now on this thread and those it starts can open nothing else by
/// name, and reach no network and no other process. Missing paths are skipped. Does nothing if the
/// kernel has no Landlock; throws Error with exit code 1 if it has Landlock and refuses.
void restrict_paths(const Readable& readable);

}  // namespace wide
