#include "app/worker/process.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "engine/device.h"

namespace wide {
namespace {

constexpr size_t kWords = 4096;           // bytes kept of the worker's output
constexpr int kTurns = 16;                // most reads in one call: output may be endless
constexpr size_t kLongest = 256u << 20u;  // a longer message is returned cut, and is no JSON

Pipe worker_pipe() {
  std::optional<Pipe> made = make_pipe();
  if (!made) cannot_spawn("worker");
  return std::move(*made);
}

void set_nonblocking(const Descriptor& d) {
  fcntl(d.get(), F_SETFL, fcntl(d.get(), F_GETFL) | O_NONBLOCK);
}

}  // namespace

bool read_words(const Descriptor& from, std::string* words) {
  for (int turn = 0; turn < kTurns; ++turn) {
    const Got got = read_some(from, words);
    if (words->size() > kWords) words->erase(0, words->size() - kWords);
    if (got != Got::something) return got == Got::nothing;
  }
  return true;
}

WorkerProcess::WorkerProcess() {
  const Descriptor heart(memfd_create("workbench-heartbeat", MFD_CLOEXEC));
  if (!heart.open() || ftruncate(heart.get(), sizeof(Heartbeat))) cannot_spawn("worker");
  heart_.reset(Heartbeat::map(heart.get()));
  if (!heart_) cannot_spawn("worker");
  Pipe commands = worker_pipe(), prints = worker_pipe(), replies = worker_pipe();
  std::vector<std::string> arguments{"worker"};
  if (device_runtime(c10::kCUDA)) arguments.emplace_back("--gpu");  // this process looks for one
  // Answers have a pipe of their own, because the worker's code may print to standard output.
  process_.emplace("worker", std::move(arguments),
                   std::vector<std::pair<int, int>>{{commands.read.get(), STDIN_FILENO},
                                                    {prints.write.get(), STDOUT_FILENO},
                                                    {prints.write.get(), STDERR_FILENO},
                                                    {replies.write.get(), kReplyFd},
                                                    {heart.get(), kHeartFd}});
  to_ = std::move(commands.write);
  from_ = std::move(replies.read);
  printed_ = std::move(prints.read);
  set_nonblocking(from_);
  set_nonblocking(printed_);
}

WorkerProcess::~WorkerProcess() { kill(); }

bool WorkerProcess::send(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(to_.get(), text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    done += static_cast<size_t>(wrote);
  }
  return true;
}

WorkerProcess::Heard WorkerProcess::hear(int milliseconds) {
  const auto complete = [this]() -> std::optional<std::string> {
    size_t end = received_.find('\n');
    if (end == std::string::npos && received_.size() < kLongest) return std::nullopt;
    end = std::min(end, received_.size());
    std::string line = received_.substr(0, end);
    received_.erase(0, end + 1);
    return line;
  };
  if (auto line = complete()) return {std::move(line), false};
  pollfd both[] = {{from_.get(), POLLIN, 0}, {printed_.get(), POLLIN, 0}};
  if (::poll(both, 2, milliseconds) <= 0) return {};
  if (both[1].revents && !read_words(printed_, &words_)) printed_.close();
  if (!both[0].revents) return {};
  const bool open = read_some(from_, &received_) != Got::end;
  if (auto line = complete()) return {std::move(line), false};
  return {std::nullopt, !open};
}

WorkerProcess::End WorkerProcess::kill(int patience_ms) {
  if (!process_) return end_;
  for (int waited = 0; waited < patience_ms && !process_->ended(); waited += 5) usleep(5000);
  end_.by_itself = process_->ended();
  end_.for_memory = end_.by_itself && kills_.any();
  end_.status = process_->reap();
  process_.reset();
  if (printed_.open()) read_words(printed_, &words_);
  return end_;
}

}  // namespace wide
