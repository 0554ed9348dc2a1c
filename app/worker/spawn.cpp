#include "app/worker/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "app/cluster/launch.h"
#include "data/bytes/descriptor.h"
#include "engine/error.h"

namespace wide {
namespace {

/// Copies of descriptors with numbers above all those that the child uses, so that assigning one
/// number never closes another descriptor.
class HighCopies {
 public:
  explicit HighCopies(const std::vector<std::pair<int, int>>& descriptors) {
    for (const auto& [ours, theirs] : descriptors) last_ = std::max(last_, theirs);
    for (const auto& [ours, theirs] : descriptors) {
      moves_.emplace_back(fcntl(ours, F_DUPFD_CLOEXEC, last_ + 1), theirs);
      if (!moves_.back().first.open()) complete_ = false;
    }
  }

  bool complete() const { return complete_; }
  const std::vector<std::pair<Descriptor, int>>& moves() const { return moves_; }
  int last() const { return last_; }

 private:
  std::vector<std::pair<Descriptor, int>> moves_;
  int last_ = STDERR_FILENO;
  bool complete_ = true;
};

/// Runs between fork and exec, where only system calls are allowed.
[[noreturn]] void become(pid_t parent, char* const* arguments, char* const* variables,
                         const HighCopies& copies) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before the line above took effect
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  for (const auto& [copy, theirs] : copies.moves())
    if (dup2(copy.get(), theirs) < 0) _exit(1);
  close_range(static_cast<unsigned>(copies.last()) + 1, ~0u, 0);
  sigset_t nothing;
  sigemptyset(&nothing);
  sigprocmask(SIG_SETMASK, &nothing, nullptr);
  execve("/proc/self/exe", arguments, variables);
  _exit(127);
}

}  // namespace

void cannot_spawn(const std::string& who) {
  throw Error(fmt::format("[{}] process: got {}, expected a new one; try again with fewer "
                          "processes or open files",
                          who, std::strerror(errno)),
              1);
}

Spawned::Spawned(const std::string& who, std::vector<std::string> arguments,
                 const std::vector<std::pair<int, int>>& descriptors) {
  const HighCopies copies(descriptors);
  if (!copies.complete()) cannot_spawn(who);
  arguments.insert(arguments.begin(), "workbench");
  std::vector<char*> list;
  for (std::string& argument : arguments) list.push_back(argument.data());
  list.push_back(nullptr);
  // Removes the launcher's variables: with them the child would take itself for a rank.
  std::vector<char*> variables;
  for (char** v = environ; *v; ++v)
    if (!set_by_launcher(*v)) variables.push_back(*v);
  variables.push_back(nullptr);
  const pid_t self = getpid();
  pid_ = fork();
  if (pid_ == 0) become(self, list.data(), variables.data(), copies);
  if (pid_ < 0) cannot_spawn(who);
  setpgid(pid_, pid_);  // parent and child both do this, whichever runs first
}

Spawned::~Spawned() { reap(); }

bool Spawned::ended() const {
  siginfo_t info{};
  return pid_ < 0 ||
         (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          info.si_pid == pid_);
}

void Spawned::await() const {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
}

void Spawned::interrupt() const {
  if (pid_ > 0) ::kill(-pid_, SIGINT);
}

void Spawned::kill() const {
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

int Spawned::reap() {
  int status = 0;
  if (pid_ <= 0) return status;
  kill();  // before waitpid, while the group's number cannot be reused
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

}  // namespace wide
