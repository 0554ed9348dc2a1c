#include "app/worker/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

constexpr size_t kWords = 4096;           // of what the worker prints
constexpr size_t kLongest = 256u << 20u;  // bytes without an end of line that are still a message

[[noreturn]] void cannot_start() {
  throw Error(fmt::format("[worker] process: got {}, expected a new one; try again with fewer "
                          "processes or open files",
                          std::strerror(errno)),
              1);
}

/// A descriptor beyond those that the worker is given numbers for.
int high(int fd) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, 20);
  ::close(fd);
  if (moved < 0) cannot_start();
  return moved;
}

struct Pipe {
  int read = -1, write = -1;
};

Pipe make_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC)) cannot_start();
  return {high(fds[0]), high(fds[1])};
}

/// Between fork and exec: system calls only.
[[noreturn]] void become_worker(pid_t parent, int commands, int prints, int replies, int beacon) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before it could be watched
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  // A worker that prints must not write into the answers.
  const std::pair<int, int> moves[] = {
      {commands, 0}, {prints, 1}, {prints, 2}, {replies, kReplyFd}, {beacon, kBeaconFd}};
  for (const auto& [from, to] : moves)
    if (dup2(from, to) < 0) _exit(1);
  close_range(kBeaconFd + 1, ~0u, 0);
  sigset_t nothing;
  sigemptyset(&nothing);
  sigprocmask(SIG_SETMASK, &nothing, nullptr);
  char name[] = "workbench", command[] = "worker";
  char* const arguments[] = {name, command, nullptr};
  execv("/proc/self/exe", arguments);
  _exit(127);
}

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

WorkerProcess::WorkerProcess() {
  const int memory = memfd_create("workbench-beacon", MFD_CLOEXEC);
  if (memory < 0 || ftruncate(memory, sizeof(Beacon))) cannot_start();
  const int beacon = high(memory);
  void* page = mmap(nullptr, sizeof(Beacon), PROT_READ | PROT_WRITE, MAP_SHARED, beacon, 0);
  if (page == MAP_FAILED) cannot_start();
  beacon_ = static_cast<Beacon*>(page);
  const Pipe commands = make_pipe(), prints = make_pipe(), replies = make_pipe();
  to_ = commands.write;
  from_ = replies.read;
  printed_ = prints.read;
  const pid_t self = getpid();
  pid_ = fork();
  if (pid_ == 0) become_worker(self, commands.read, prints.write, replies.write, beacon);
  const int why = errno;
  for (const int fd : {commands.read, prints.write, replies.write, beacon}) ::close(fd);
  if (pid_ < 0) {
    close_all();
    errno = why;
    cannot_start();
  }
  setpgid(pid_, pid_);  // whoever of the two comes first
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

/// Reads what is there; false at the end of the stream.
bool WorkerProcess::drain(int* fd, std::string* into) {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(*fd, buffer, sizeof buffer);
    if (got > 0) into->append(buffer, static_cast<size_t>(got));
    if (got > 0 && into != &words_) return true;  // a line may be complete
    if (into == &words_ && words_.size() > 2 * kWords) words_.erase(0, words_.size() - kWords);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN;
  }
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
  if (pid_ <= 0) return end_;
  siginfo_t info{};
  const auto ended = [&] {
    info.si_pid = 0;
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
  };
  for (int waited = 0; waited < patience_ms && !ended(); waited += 5) usleep(5000);
  end_.by_itself = ended();
  // Not reaped yet, so the group still has its number: also what the worker left behind ends.
  ::kill(-pid_, SIGKILL);
  while (waitpid(pid_, &end_.status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
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
