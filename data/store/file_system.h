#pragma once
#include <cstdint>
#include <string>

namespace wide {

/// The name of a network file system by the number that statfs gives it, as "NFS"; "" for any
/// other.
std::string network_file_system(int64_t magic);
/// statfs's number of the file system of `path`, or of its folder if the file does not exist; 0 if
/// unknown.
int64_t file_system_magic(const std::string& path);

}  // namespace wide
