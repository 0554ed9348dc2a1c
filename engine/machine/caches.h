#pragma once
#include <cstdint>
#include <string>

namespace wide {

/// Bytes of the caches of this level (1: next to the core) that the first `processors` of this
/// program have, each once however many share it; `unknown` where Linux does not tell. What sysconf
/// says of the outer one is that of the whole package, of which a program may have a twelfth.
/// `folder` has cpu0, cpu1, ... with cache/index0, ... (Linux, Documentation/ABI/testing/
/// sysfs-devices-system-cpu).
int64_t cache_bytes(int level, int processors, int64_t unknown,
                    const std::string& folder = "/sys/devices/system/cpu");

/// That of the last level, or 32 MB where it is unknown; looked up once.
int64_t last_cache_bytes(int processors);

}  // namespace wide
