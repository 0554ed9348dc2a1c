#include "app/sandbox/sandbox.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/cancel.h"
#include "app/cli.h"
#include "app/cluster/rank_all_gather.h"
#include "app/sandbox/devices.h"
#include "app/sandbox/landlock.h"
#include "app/sandbox/limits.h"
#include "app/sandbox/requests.h"
#include "app/sandbox/seccomp.h"
#include "app/worker/heartbeat.h"
#include "app/worker/spawn.h"
#include "data/bytes/descriptor.h"
#include "data/machine/ending.h"
#include "data/machine/oom.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {

constexpr int kChannel = 3;                  // the channel's descriptor in the sandbox
constexpr int kLookMs = 100, kGatherMs = 2;  // kGatherMs: while other ranks are awaited
constexpr double kWaitS = 2;                 // for a process that is ending
constexpr double kSilentS = 600;       // longest silence by default, not counting reading files
constexpr double kBytesPerS = 10e6;    // of files on a slow disk
constexpr size_t kWords = 256 * 1024;  // bytes kept of the sandbox's standard error

/// In a sandbox: the page through which heartbeats reach the process outside.
Heartbeat* own_heart = nullptr;

/// The total size of the files that may be read, for the limits of memory and silence.
int64_t bytes_of(const SandboxPolicy& policy) {
  int64_t sum = 0;
  for (const std::string& path : policy.read) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (!error) sum += static_cast<int64_t>(size);
  }
  return sum;
}

Readable readable(const SandboxPolicy& policy) {
  Readable all;
  all.paths = {"/sys",
               "/dev/urandom",
               "/dev/null",
               "/proc/cpuinfo",
               "/proc/meminfo",
               "/proc/stat",
               "/proc/loadavg",
               "/proc/self/maps",
               "/proc/self/stat",
               "/proc/self/status",
               "/proc/self/statm",
               "/proc/self/cgroup"};
  all.paths.insert(all.paths.end(), policy.read.begin(), policy.read.end());
  all.folders = policy.list;
  if (!policy.device) return all;
  // Drivers load libraries at first use, open device nodes and name their threads.
  for (const char* path : {"/usr", "/lib", "/lib64", "/opt", "/etc", "/proc"})
    all.paths.emplace_back(path);
  for (const std::string& folder : device_library_folders()) all.paths.push_back(folder);
  all.devices = device_nodes("/dev");
  all.devices.emplace_back("/proc/self/task");
  return all;
}

constexpr int kHighNumber = 100;  // for a file, above those numbers that `live` reassigns
constexpr rlim_t kFileNumbers = kHighNumber + 1;

/// Throws Error where the shell's limit leaves no room for the sandbox's files.
void check_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kFileNumbers) return;
  throw Error(fmt::format("[sandbox] open files: got a limit of {}, expected at least {}; try "
                          "ulimit -n 1024",
                          limit.rlim_cur, kFileNumbers),
              1);
}

/// The whole life of the sandbox's process, called right after fork: it has one thread and no open
/// files from elsewhere.
[[noreturn]] void live(const SandboxPolicy& policy, const std::function<int()>& work, int socket,
                       int out, int err, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before it could be watched
  // Ctrl-C goes to both of us; whoever opened the sandbox passes it on.
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  sigprocmask(SIG_BLOCK, &interrupt, nullptr);
  std::signal(SIGTERM, SIG_DFL);
  const int in = ::open("/dev/null", O_RDONLY);
  const int high = fcntl(socket, F_DUPFD, kHighNumber);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  dup2(high, kChannel);
  close_range(kChannel + 1, ~0u, 0);
  const auto channel = std::make_shared<Channel>(kChannel);
  const int code = exit_code_of([&] {
    ask_for_everything(channel);
    if (policy.device) start_driver(policy.driver.c_str());
    limit_process(bytes_of(policy), policy.device);
    restrict_paths(readable(policy));
    restrict_calls(policy.device);
    try {
      return work();
    } catch (const Error& e) {
      if (rank_group() && rank_group()->rank() > 0) rank_group()->send_error(e.what());
      throw;
    }
  });
  std::fflush(nullptr);
  channel->send({{"end", code}});
  _exit(code);
}

/// The process outside: it answers requests, passes on what is printed, and ends a sandbox that
/// hangs.
class Watch {
 public:
  Watch(const SandboxPolicy& policy, pid_t pid, int socket, Descriptor out, Descriptor err,
        const Heartbeat& heart, RankAllGather* others)
      : policy_(policy),
        pid_(pid),
        channel_(socket),
        answers_(policy, channel_),
        out_(std::move(out)),
        err_(std::move(err)),
        heart_(heart),
        others_(others) {
    limit_s_ = policy.timeout_s > 0 ? policy.timeout_s
                                    : kSilentS + static_cast<double>(bytes_of(policy)) / kBytesPerS;
  }
  ~Watch() { end(); }

  const std::string& line() const { return line_; }

  int until_the_end() {
    double turn_s = now_s();
    Silence silence;
    while (!code_ && !gone_) {
      look();
      // Does not count time in which this process was suspended or blocked: the sandbox had to
      // wait.
      if (const double took_s = now_s() - turn_s; took_s > 5e-3 * kLookMs)
        silence.leave_out(took_s);
      turn_s = now_s();
      silence.listen(heart_);
      if (others_) pass_on_values(silence);
      if (cancelled()) pass_on_cancel();
      if (silence.seconds() > limit_s_) hangs(silence.seconds());
    }
    return result();
  }

 private:
  void look() {
    pollfd all[] = {
        {channel_.socket(), POLLIN, 0}, {out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
    if (::poll(all, 3, others_ && others_->waiting() ? kGatherMs : kLookMs) <= 0) return;
    if (all[1].revents) print();
    if (all[2].revents) note();
    if (!all[0].revents) return;
    gone_ = !channel_.read();
    try {
      while (const auto message = channel_.take()) {
        if (others_ && message->contains("all_gather")) {
          others_->send((*message)["all_gather"]);
          continue;
        }
        if (others_ && message->contains("error_line")) line_ = (*message)["error_line"];
        if (!message->contains("end")) {
          answers_.answer(*message);
          continue;
        }
        code_ = (*message)["end"].get<int>();
        return;
      }
    } catch (const Channel::Garbage&) {
      crashed("a request that it has no right to");
    } catch (const Message::exception&) {
      crashed("a request that it has no right to");
    }
  }

  void print() {
    std::string got;
    read_or_close(&out_, &got);
    std::fwrite(got.data(), 1, got.size(), stdout);
    std::fflush(stdout);
  }
  void note() {
    read_or_close(&err_, &words_);
    if (words_.size() > 2 * kWords) words_.erase(0, words_.size() - kWords);
  }

  /// Forwards values between the sandbox and the other ranks; waiting for these is not a hang.
  void pass_on_values(Silence& silence) {
    if (others_->waiting()) silence.restart();
    const auto values = others_->received();
    if (values && !channel_.send({{"values", *values}})) crashed("a channel that it does not read");
  }

  void pass_on_cancel() {
    if (others_) throw Cancelled();  // a sandbox in an all-gather might wait for ever
    if (!asked_s_) {
      asked_s_ = now_s();
      ::kill(pid_, SIGTERM);
    } else if (now_s() - *asked_s_ > policy_.grace_s) {
      throw Cancelled();
    }
  }

  int result() {
    if (!code_) wait_a_moment();
    const int status = end();
    while (out_.open()) print();
    while (err_.open()) note();
    constexpr int kCodes[] = {0, 1, 2, 3, 4, 5, 6, 130};
    if (code_ && std::find(std::begin(kCodes), std::end(kCodes), *code_) != std::end(kCodes)) {
      std::fwrite(words_.data(), 1, words_.size(), stderr);
      return *code_;
    }
    if (asked_s_) throw Cancelled();
    if (!WIFSIGNALED(status))
      crashed(fmt::format("exit code {} before its work was done", WEXITSTATUS(status)));
    const int signal = WTERMSIG(status);
    if (signal == SIGKILL && kills_.any())
      throw Error(fmt::format("[{}] memory: got a kill by the system, expected enough memory; try "
                              "fewer models",
                              printable(policy_.what)),
                  5);
    const std::string text = signal_text(signal);
    if (signal == SIGKILL)  // killed by a user or a batch system
      throw Error(fmt::format("[{}] sandbox: got {}, expected it to finish; try again",
                              printable(policy_.what), text),
                  5);
    if (signal == SIGBUS)
      throw Error(
          fmt::format("[{}] sandbox: got {}, expected files that are not cut while they are "
                      "read; try again",
                      printable(policy_.what), text),
          5);
    crashed(text);
  }

  [[noreturn]] void crashed(const std::string& how) const {
    const std::string last = last_line(words_);
    // The cause may be a file that was read; if none was, the device needs what the sandbox
    // forbids.
    throw Error(fmt::format("[{}] sandbox: got {}{}, expected it to finish; try {}",
                            printable(policy_.what), how, last.empty() ? "" : " (" + last + ")",
                            policy_.read.empty()
                                ? "--trust for fuse and train, which then use the device outside it"
                                : "another file"),
                5);
  }

  [[noreturn]] void hangs(double silent_s) const {
    throw Error(fmt::format("[{}] sandbox: got no heartbeat for {:.3g} s, expected one in {:.3g} "
                            "s; try --timeout {:.0f}",
                            printable(policy_.what), silent_s, limit_s_, 4 * limit_s_),
                5);
  }

  /// Waits for a process that is about to end.
  void wait_a_moment() {
    siginfo_t info{};
    const double begun_s = now_s();
    while (now_s() - begun_s < kWaitS && !info.si_pid) {
      if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT)) return;
      if (!info.si_pid) usleep(1000);
    }
  }

  int end() {
    int status = 0;
    if (pid_ <= 0) return status;
    ::kill(pid_, SIGKILL);
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

  const SandboxPolicy& policy_;
  pid_t pid_;
  Channel channel_;
  Answers answers_;
  Descriptor out_, err_;
  const Heartbeat& heart_;
  RankAllGather* others_;  // nullptr without other ranks
  std::string line_;       // the error line of the sandbox, if it sent one
  double limit_s_;
  MemoryKills kills_;
  std::optional<int> code_;
  bool gone_ = false;
  std::optional<double> asked_s_;  // when it was asked to end
  std::string words_;
};

}  // namespace

std::vector<std::string> sandbox_lacks() {
  std::vector<std::string> lacks;
  if (landlock_version() == 0)
    lacks.emplace_back("no Landlock: a network from a file may read any file that you may read");
  if (!has_seccomp())
    lacks.emplace_back("no seccomp: a network from a file may make any system call");
  return lacks;
}

int run_in_sandbox(const SandboxPolicy& policy, const std::function<int()>& work,
                   const MakeAllGather& all_gather) {
  check_open_files();
  Heartbeat* heart = Heartbeat::map(-1);
  std::optional<Pipe> out = make_pipe(), err = make_pipe();
  if (heart == nullptr || !out || !err) cannot_spawn("sandbox");
  const auto [ours, theirs] = socket_pair();
  catch_cancel();
  std::fflush(nullptr);  // or parent and child would both print what is buffered
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) cannot_spawn("sandbox");
  own_heart = pid == 0 ? heart : nullptr;
  if (pid == 0) live(policy, work, theirs, out->write.get(), err->write.get(), parent);
  ::close(theirs);
  out->write.close();
  err->write.close();
  const std::unique_ptr<RankAllGather> others = all_gather ? all_gather() : nullptr;
  const timeval patience{10, 0};  // limit for a send to a sandbox that does not read
  if (others) setsockopt(ours, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  Watch watch(policy, pid, ours, std::move(out->read), std::move(err->read), *heart, others.get());
  if (!others) return watch.until_the_end();
  try {
    const int code = watch.until_the_end();
    return others->end(code, watch.line());
  } catch (const Error& e) {
    others->end(e.exit_code(), e.what());
    throw;
  } catch (const Cancelled&) {
    others->end(130, "");
    throw;
  }
}

void heartbeat() {
  if (own_heart) own_heart->beat();
}

}  // namespace wide
