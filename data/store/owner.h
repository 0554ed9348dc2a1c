#pragma once
#include <string>

namespace wide {

/// This process, as a text that no other process has, now or after a restart.
std::string this_process();

/// Whether the process that `owner` names runs. One that another host or container would have to
/// be asked about counts as gone.
bool runs(const std::string& owner);

}  // namespace wide
