#pragma once
#include <cstdint>
#include <string>

namespace wide {

/// Bytes of the caches of this level (1: next to the core) of the first `processors` of this
/// program, shared ones counted once; `unknown` if Linux does not tell. sysconf reports the outer
/// cache of the whole package, of which a program may have a twelfth. `folder` has cpu0, cpu1, ...
/// with cache/index0, ... (sysfs-devices-system-cpu in Linux's Documentation/ABI/testing).
int64_t cache_bytes(int level, int processors, int64_t unknown,
                    const std::string& folder = "/sys/devices/system/cpu");

/// `cache_bytes` of level 3, or 32 MB if unknown; looked up once for each number of processors.
int64_t last_cache_bytes(int processors);

}  // namespace wide
