#include "app/worker/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "data/text.h"

namespace wide {
namespace {

constexpr size_t kWords = 4096;           // of what the worker prints
constexpr int kTurns = 16;                // of reading, before something else has its turn
constexpr size_t kLongest = 256u << 20u;  // bytes without an end of line that are still a message

struct Pipe {
  int read = -1, write = -1;
};

Pipe make_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC)) cannot_spawn("worker");
  return {fds[0], fds[1]};
}

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

WorkerProcess::WorkerProcess() {
  const int beacon = memfd_create("workbench-beacon", MFD_CLOEXEC);
  if (beacon < 0 || ftruncate(beacon, sizeof(Beacon))) cannot_spawn("worker");
  void* page = mmap(nullptr, sizeof(Beacon), PROT_READ | PROT_WRITE, MAP_SHARED, beacon, 0);
  if (page == MAP_FAILED) cannot_spawn("worker");
  beacon_ = static_cast<Beacon*>(page);
  const Pipe commands = make_pipe(), prints = make_pipe(), replies = make_pipe();
  to_ = commands.write;
  from_ = replies.read;
  printed_ = prints.read;
  const auto close_theirs = [&] {
    for (const int fd : {commands.read, prints.write, replies.write, beacon}) ::close(fd);
  };
  try {
    // A worker that prints must not write into the answers.
    process_.emplace("worker", std::vector<std::string>{"worker"},
                     std::vector<std::pair<int, int>>{{commands.read, STDIN_FILENO},
                                                      {prints.write, STDOUT_FILENO},
                                                      {prints.write, STDERR_FILENO},
                                                      {replies.write, kReplyFd},
                                                      {beacon, kBeaconFd}});
  } catch (...) {
    close_theirs();
    close_all();
    throw;
  }
  close_theirs();
  set_nonblocking(from_);
  set_nonblocking(printed_);
  // Writing to a worker that is gone is an error code here, not a signal.
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
  if (beacon_) munmap(beacon_, sizeof(Beacon));
  beacon_ = nullptr;
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

/// Reads what is there, but not for ever from a worker that never stops printing; false at the end
/// of the stream.
bool WorkerProcess::drain(int* fd, std::string* into) {
  char buffer[1 << 16];
  for (int turn = 0; turn < kTurns; ++turn) {
    const ssize_t got = ::read(*fd, buffer, sizeof buffer);
    if (got > 0) into->append(buffer, static_cast<size_t>(got));
    if (got > 0 && into != &words_) return true;  // a line may be complete
    if (into == &words_ && words_.size() > 2 * kWords) words_.erase(0, words_.size() - kWords);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN;
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
  if (both[1].revents && !drain(&printed_, &words_)) {
    ::close(printed_);
    printed_ = -1;  // poll leaves it alone
  }
  if (!both[0].revents) return {};
  const bool open = drain(&from_, &received_);
  if (auto line = complete()) return {std::move(line), false};
  return {std::nullopt, !open};
}

WorkerProcess::End WorkerProcess::kill(int patience_ms) {
  if (!process_) return end_;
  for (int waited = 0; waited < patience_ms && !process_->ended(); waited += 5) usleep(5000);
  end_.by_itself = process_->ended();
  end_.status = process_->reap();
  process_.reset();
  if (printed_ >= 0) drain(&printed_, &words_);
  return end_;
}

std::string WorkerProcess::last_words() const {
  size_t end = words_.size();
  while (end > 0 && (words_[end - 1] == '\n' || words_[end - 1] == ' ')) --end;
  const size_t before = end == 0 ? std::string::npos : words_.rfind('\n', end - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return printable(words_.substr(begin, end - begin), 200);
}

}  // namespace wide
