#pragma once
#include <cstdint>

namespace wide {

/// Limits this process for good: programs that it starts gain no privileges, no debugger may
/// attach, no core files, a stack of at most 8 MB, first choice of the out-of-memory killer. Unless
/// `device_memory` is set (drivers map far more than they use), it may use no more memory than is
/// available, besides `mapped` bytes of files.
void limit_process(int64_t mapped, bool device_memory);

}  // namespace wide
