#include "app/explorer/models/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "engine/error.h"

namespace wide {

Child::~Child() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void Child::start(std::vector<std::string> arguments) {
  if (running()) return;
  if (thread_.joinable()) thread_.join();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC))
    throw Error(fmt::format("[explorer] process: got {}, expected a new one; try again with fewer "
                            "open files",
                            std::strerror(errno)),
                1);
  arguments.insert(arguments.begin(), "workbench");
  std::vector<char*> list;
  for (std::string& a : arguments) list.push_back(a.data());
  list.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {  // between fork and exec: system calls only
    setpgid(0, 0);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execv("/proc/self/exe", list.data());
    _exit(127);
  }
  ::close(ends[1]);
  {
    const std::lock_guard lock(mutex_);
    pid_ = pid;
    code_ = -1;
    output_.clear();
  }
  if (pid > 0) setpgid(pid, pid);
  thread_ = std::thread([this, from = ends[0]] { listen(from); });
}

void Child::listen(int from) {
  constexpr size_t kKept = 20000;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(from, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    const std::lock_guard lock(mutex_);
    output_.append(buffer, static_cast<size_t>(got));
    if (output_.size() > 2 * kKept) output_.erase(0, output_.size() - kKept);
    wake();
  }
  ::close(from);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  {
    const std::lock_guard lock(mutex_);
    code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    pid_ = -1;
  }
  wake();
}

void Child::stop() {
  const std::lock_guard lock(mutex_);
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

bool Child::running() const {
  const std::lock_guard lock(mutex_);
  return pid_ > 0;
}

std::string Child::output() const {
  const std::lock_guard lock(mutex_);
  return output_;
}

int Child::code() const {
  const std::lock_guard lock(mutex_);
  return code_;
}

}  // namespace wide
