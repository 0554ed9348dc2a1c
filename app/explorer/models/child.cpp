#include "app/explorer/models/child.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "engine/machine/clock.h"

namespace wide {
namespace {

constexpr size_t kLongOutput = 4 << 20, kLastLines = 4000;  // bytes

/// Where the last whole lines of `text` begin that have at most `bytes` bytes.
size_t last_lines_at(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return 0;
  const size_t line = text.find('\n', text.size() - bytes - 1);
  return line == std::string::npos ? text.size() - bytes : line + 1;
}

}  // namespace

Child::~Child() {
  if (patience_s > 0) {
    {
      const std::lock_guard lock(mutex_);
      if (process_) process_->interrupt();
    }
    const double end_s = now_s() + patience_s;
    while (running() && now_s() < end_s) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  stop();
  if (thread_.joinable()) thread_.join();
}

void Child::start(std::vector<std::string> arguments) {
  if (running()) return;
  if (thread_.joinable()) thread_.join();
  std::optional<Pipe> pipe = make_pipe();
  if (!pipe) cannot_spawn("explorer");
  const int to = pipe->write.get();
  const std::lock_guard lock(mutex_);
  code_ = -1;
  output_.clear();
  left_out_ = 0;
  process_.emplace("explorer", std::move(arguments),
                   std::vector<std::pair<int, int>>{{to, STDOUT_FILENO}, {to, STDERR_FILENO}});
  try {
    thread_ = std::thread([this, from = std::move(pipe->read)] { listen(from); });
  } catch (...) {
    process_.reset();
    throw;
  }
}

void Child::listen(const Descriptor& from) {
  for (std::string got; read_some(from, &got) == Got::something; got.clear()) {
    const std::lock_guard lock(mutex_);
    output_ += got;
    if (output_.size() > 2 * kLongOutput) {
      const size_t from_here = last_lines_at(output_, kLongOutput);
      output_.erase(0, from_here);
      left_out_ += from_here;
    }
    wake();
  }
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
  if (left_out_ == 0) return output_;
  return fmt::format("# {} bytes of output before this are left out\n", left_out_) + output_;
}

std::string Child::last_lines() const {
  const std::lock_guard lock(mutex_);
  return output_.substr(last_lines_at(output_, kLastLines));
}

int Child::code() const {
  const std::lock_guard lock(mutex_);
  return code_;
}

}  // namespace wide
