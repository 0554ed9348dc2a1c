#include "app/explorer/models/child.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace wide {

Child::~Child() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void Child::start(std::vector<std::string> arguments) {
  if (running()) return;
  if (thread_.joinable()) thread_.join();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) cannot_spawn("explorer");
  try {
    const std::lock_guard lock(mutex_);
    code_ = -1;
    output_.clear();
    process_.emplace(
        "explorer", std::move(arguments),
        std::vector<std::pair<int, int>>{{ends[1], STDOUT_FILENO}, {ends[1], STDERR_FILENO}});
    thread_ = std::thread([this, from = ends[0]] { listen(from); });
  } catch (...) {
    process_.reset();
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  ::close(ends[1]);
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
  process_->await();  // without the lock: the child may close its output long before it ends
  {
    const std::lock_guard lock(mutex_);
    const int status = process_->reap();
    code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    process_.reset();
  }
  wake();
}

void Child::stop() {
  const std::lock_guard lock(mutex_);
  if (process_) process_->kill();
}

bool Child::running() const {
  const std::lock_guard lock(mutex_);
  return process_.has_value();
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
