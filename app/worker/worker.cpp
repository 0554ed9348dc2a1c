#include "app/worker/worker.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/options.h"
#include "app/results/stored_tuning.h"
#include "app/trial/stages.h"
#include "app/worker/heartbeat.h"
#include "app/worker/protocol.h"
#include "data/machine/gpu.h"
#include "data/machine/peaks.h"
#include "data/one_line.h"
#include "data/reports/sweep/report_json.h"
#include "engine/device.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

/// Sends answers and stages to the sweep. Ends the worker if nobody reads them any more.
class Replies : public Stages {
 public:
  Replies(int fd, Heartbeat* heart) : fd_(fd), heart_(heart) {}

  void send(const Json& message) const {
    const std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    for (size_t done = 0; done < text.size();) {
      const ssize_t wrote = ::write(fd_, text.data() + done, text.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) _exit(0);
      done += static_cast<size_t>(wrote);
    }
  }

  void begin(const std::string& what, const std::string& name) override {
    send({{"stage", what}, {"name", name}});
  }
  void time(const std::vector<std::string>& names) override {
    heart_->contender.store(0);
    send({{"time", names}});
  }
  void call(size_t index) override {
    heart_->contender.store(static_cast<uint32_t>(index), std::memory_order_relaxed);
    heart_->beat();
  }
  void memory(int64_t needed, int64_t available) override {
    send({{"memory", {needed, available}}});
  }

 private:
  int fd_;
  Heartbeat* heart_;
};

/// Makes an allocation beyond the available memory an error, before the kernel starts killing
/// processes. For the CPU only: drivers of GPUs map far more than they use.
void limit_memory(const SweepCase& planned, int threads) {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_AS, &limit);  // removes the limit of the previous case
  if (planned.device.is_cpu()) {
    // Slack for the stacks and arenas of threads that have not started yet.
    const int64_t slack = (int64_t{1} << 30) + threads * (int64_t{200} << 20);
    const auto most = static_cast<rlim_t>(process_memory().mapped + available_memory() + slack);
    if (most < limit.rlim_max) limit.rlim_cur = most;
  }
  setrlimit(RLIMIT_AS, &limit);
}

void serve(const std::string& line, Replies& replies) {
  const Json request = Json::parse(line);
  if (request.contains("peaks_of")) {
    const c10::Device device(request["peaks_of"].get<std::string>());
    const int threads = set_threads(request.at("threads").get<int>());
    allow_tf32(request.at("tf32").get<bool>());
    replies.send({{"peaks", peaks_json(machine_peaks(device, threads))}});
    return;
  }
  const SweepCase planned = sweep_case_from_json(request);
  const SweepSettings settings = settings_from_json(request);
  allow_tf32(settings.tf32);
  use_stored_tuning(settings.tuning_db);
  limit_memory(planned, set_threads(settings.threads));
  if (settings.peaks) use_peaks(settings.peaks_device, settings.threads, *settings.peaks);
  const Case result = run_case(planned, settings, replies);
  replies.send({{"result", to_json(result)}, {"resident", process_memory().resident}});
  expect_working(
      planned.device);  // throws for a broken device now, so that the next case is not blamed
  release_memory(planned.device);  // the next case needs blocks of other sizes
}

}  // namespace

int serve_worker() {
  struct stat status {};
  if (fstat(kReplyFd, &status) || !S_ISFIFO(status.st_mode) || fstat(kHeartFd, &status))
    fail("[worker] pipes: got none, expected those of a sweep; try workbench sweep");
  Heartbeat* heart = Heartbeat::map(kHeartFd);
  if (!heart) fail("[worker] heartbeat: got none, expected that of a sweep; try workbench sweep");
  // High numbers, so that code which writes to fixed descriptors cannot hit them.
  const int reply = fcntl(kReplyFd, F_DUPFD_CLOEXEC, 100);
  const int commands = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 100);
  close(kReplyFd);
  close(kHeartFd);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  close(nothing);
  std::ofstream("/proc/self/oom_score_adj") << 900;  // first choice of the out-of-memory killer

  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> input(fdopen(commands, "r"), std::fclose);
  Replies replies(reply, heart);
  replies.send({{"ready", getpid()}});
  char* line = nullptr;
  size_t size = 0;
  while (getline(&line, &size, input.get()) > 0) {
    try {
      serve(line, replies);
    } catch (const BrokenDevice& e) {
      std::fprintf(stderr, "%s\n", e.what());
      _exit(e.exit_code());  // the sweep blames the running trial and starts another worker
    } catch (const Error& e) {
      replies.send({{"error", e.what()}, {"exit_code", e.exit_code()}});
    } catch (const std::exception& e) {
      replies.send({{"error", "[worker] " + one_line(e)}, {"exit_code", 1}});
    }
  }
  std::free(line);
  return 0;
}

}  // namespace wide
