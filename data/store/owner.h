#pragma once
#include <string>

namespace wide {

/// A text that identifies this process, different from every other process's, also after a reboot.
std::string this_process();

/// Whether the process that `owner` names is running. A process of another host or container cannot
/// be checked, and counts as ended.
bool runs(const std::string& owner);

}  // namespace wide
