#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "app/worker/case_worker.h"
#include "app/worker/host.h"

namespace wide {

/// A worker process of this machine, which `WorkerHost` watches over on a thread of its own.
class HostWorker : public Worker {
 public:
  explicit HostWorker(SweepSettings settings);
  ~HostWorker() override;
  HostWorker(const HostWorker&) = delete;
  HostWorker& operator=(const HostWorker&) = delete;

  void send(const SweepCase& planned) override;
  std::optional<WorkerNews> receive(std::chrono::milliseconds patience) override;
  bool alive() override;
  void stop() override;

 private:
  void work();
  void tell(WorkerNews news);

  WorkerHost host_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<SweepCase> given_;
  std::deque<WorkerNews> news_;
  std::exception_ptr error_;  // why the sweep cannot go on
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace wide
