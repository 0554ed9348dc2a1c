#include "app/sandbox/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "engine/error.h"

namespace wide {
namespace {

// Permissions that the headers of Debian 12 do not define yet.
constexpr uint64_t kTruncate = 1u << 14u, kDeviceControl = 1u << 15u;
constexpr uint64_t kBindAndConnect = 3, kSocketsAndSignals = 3;

/// The kernel's struct as of Landlock 6; older kernels accept it if their unknown fields are 0.
struct Ruleset {
  uint64_t files = 0, network = 0, scope = 0;
};

/// All permissions that this version of Landlock can revoke.
Ruleset all_of(int version) {
  Ruleset set;
  set.files = LANDLOCK_ACCESS_FS_REFER - 1;
  if (version >= 2) set.files |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3) set.files |= kTruncate;
  if (version >= 5) set.files |= kDeviceControl;
  if (version >= 4) set.network = kBindAndConnect;
  if (version >= 6) set.scope = kSocketsAndSignals;
  return set;
}

[[noreturn]] void refuse(const char* what) {
  throw Error(fmt::format("[sandbox] Landlock: got {} for {}, expected to restrict this process; "
                          "try another kernel",
                          std::strerror(errno), what),
              1);
}

void allow(int ruleset, const std::string& path, uint64_t access) {
  const int fd = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return;
  struct stat status {};
  if (!::fstat(fd, &status) && !S_ISDIR(status.st_mode)) access &= ~LANDLOCK_ACCESS_FS_READ_DIR;
  const landlock_path_beneath_attr rule{access, fd};
  if (access && ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
    refuse(path.c_str());
  // Files of /proc stay open: else the kernel may drop the inode, and the rule with it.
  if (path.rfind("/proc/", 0) != 0) ::close(fd);
}

}  // namespace

int landlock_version() {
  const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version < 0 ? 0 : static_cast<int>(version);
}

void restrict_paths(const Readable& readable) {
  const int version = landlock_version();
  if (version == 0) return;
  const Ruleset set = all_of(version);
  const auto ruleset =
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &set, sizeof set, 0));
  if (ruleset < 0) refuse("a set of rules");
  constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
  for (const std::string& path : readable.paths) allow(ruleset, path, kRead);
  for (const std::string& path : readable.folders)
    allow(ruleset, path, LANDLOCK_ACCESS_FS_READ_DIR);
  for (const std::string& path : readable.devices)
    allow(ruleset, path, kRead | LANDLOCK_ACCESS_FS_WRITE_FILE | (set.files & kDeviceControl));
  if (::syscall(SYS_landlock_restrict_self, ruleset, 0)) refuse("this process");
  ::close(ruleset);
}

}  // namespace wide
