#include "app/worker/process.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace wide {
namespace {

constexpr size_t kWords = 4096;           // bytes kept of the worker's output
constexpr int kTurns = 16;                // reads in a row before the caller may do other things
constexpr size_t kLongest = 256u << 20u;  // the longest message, in bytes

struct Pipe {
  int read = -1, write = -1;
};

Pipe make_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC)) cannot_spawn("worker");
  return {fds[0], fds[1]};
}

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

enum class Got { something, nothing, end };

/// Appends what one read of `fd` returns to `into`.
Got read_some(int fd, std::string* into) {
  char buffer[1 << 16];
  ssize_t got = -1;
  do got = ::read(fd, buffer, sizeof buffer);
  while (got < 0 && errno == EINTR);
  if (got > 0) into->append(buffer, static_cast<size_t>(got));
  if (got > 0) return Got::something;
  return got < 0 && errno == EAGAIN ? Got::nothing : Got::end;
}

}  // namespace

bool read_words(int fd, std::string* words) {
  for (int turn = 0; turn < kTurns; ++turn) {
    const Got got = read_some(fd, words);
    if (words->size() > kWords) words->erase(0, words->size() - kWords);
    if (got != Got::something) return got == Got::nothing;
  }
  return true;
}

WorkerProcess::WorkerProcess() {
  const int heart = memfd_create("workbench-heartbeat", MFD_CLOEXEC);
  if (heart < 0 || ftruncate(heart, sizeof(Heartbeat))) cannot_spawn("worker");
  heart_ = Heartbeat::map(heart);
  if (!heart_) cannot_spawn("worker");
  const Pipe commands = make_pipe(), prints = make_pipe(), replies = make_pipe();
  to_ = commands.write;
  from_ = replies.read;
  printed_ = prints.read;
  const auto close_theirs = [&] {
    for (const int fd : {commands.read, prints.write, replies.write, heart}) ::close(fd);
  };
  try {
    // Answers have a pipe of their own, because the worker's code may print to standard output.
    process_.emplace("worker", std::vector<std::string>{"worker"},
                     std::vector<std::pair<int, int>>{{commands.read, STDIN_FILENO},
                                                      {prints.write, STDOUT_FILENO},
                                                      {prints.write, STDERR_FILENO},
                                                      {replies.write, kReplyFd},
                                                      {heart, kHeartFd}});
  } catch (...) {
    close_theirs();
    close_all();
    throw;
  }
  close_theirs();
  set_nonblocking(from_);
  set_nonblocking(printed_);
  // Writing to a worker that is gone must return an error, not raise a signal.
  std::signal(SIGPIPE, SIG_IGN);
}

WorkerProcess::~WorkerProcess() {
  kill();
  close_all();
}

void WorkerProcess::close_all() {
  for (int* fd : {&to_, &from_, &printed_}) {
    if (*fd >= 0) ::close(*fd);
    *fd = -1;
  }
  if (heart_) munmap(heart_, sizeof(Heartbeat));
  heart_ = nullptr;
}

bool WorkerProcess::send(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(to_, text.data() + done, text.size() - done);
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
  pollfd both[] = {{from_, POLLIN, 0}, {printed_, POLLIN, 0}};
  if (::poll(both, 2, milliseconds) <= 0) return {};
  if (both[1].revents && !read_words(printed_, &words_)) {
    ::close(printed_);
    printed_ = -1;  // poll ignores negative descriptors
  }
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
  if (printed_ >= 0) read_words(printed_, &words_);
  return end_;
}

}  // namespace wide
