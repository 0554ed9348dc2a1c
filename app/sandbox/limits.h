#pragma once
#include <cstdint>

namespace wide {

/// For this process, for good: no rights from programs it starts, not to be looked into, no core
/// files, a stack of 8 MB at most, the first to go when memory runs out; and unless `device_memory`
/// (drivers map far more than they use) no more memory than there is, besides `mapped` bytes of
/// files.
void limit_process(int64_t mapped, bool device_memory);

}  // namespace wide
