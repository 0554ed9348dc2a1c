#pragma once
#include <cstdint>
#include <string>

namespace wide {

/// The name of a network file system by the number that statfs gives it, as "NFS"; "" for any
/// other.
std::string network_file_system(int64_t magic);
/// That of the file system that `path`, or its folder where there is no such file, lies on; 0 where
/// the system does not say.
int64_t file_system_magic(const std::string& path);

}  // namespace wide
