#include "data/store/file_system.h"

#include <sys/vfs.h>

#include <filesystem>
#include <utility>

namespace wide {

std::string network_file_system(int64_t magic) {
  // Numbers as Linux defines them. A FUSE file system may also be local: its number does not say.
  constexpr std::pair<uint32_t, const char*> kNames[] = {
      {0x6969, "NFS"},          {0x517B, "SMB"},        {0xFE534D42, "SMB"},
      {0xFF534D42, "CIFS"},     {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"},
      {0x19830326, "BeeGFS"},   {0x00C36400, "Ceph"},   {0x5346414F, "AFS"},
      {0x20030528, "OrangeFS"}, {0x7461636F, "OCFS2"},  {0xAAD7AAEA, "PanFS"},
      {0x65735546, "FUSE"}};
  for (const auto& [number, name] : kNames)
    if (static_cast<uint32_t>(magic) == number) return name;
  return "";
}

int64_t file_system_magic(const std::string& path) {
  struct statfs facts {};
  if (statfs(path.c_str(), &facts) == 0) return static_cast<int64_t>(facts.f_type);
  const std::string folder = std::filesystem::absolute(path).parent_path();
  return statfs(folder.c_str(), &facts) == 0 ? static_cast<int64_t>(facts.f_type) : 0;
}

}  // namespace wide
