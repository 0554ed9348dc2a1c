#include "app/worker/host_worker.h"

#include <utility>

#include "app/cancel.h"

namespace wide {

HostWorker::HostWorker(SweepSettings settings)
    : host_(std::move(settings)), thread_([this] { work(); }) {}

HostWorker::~HostWorker() {
  stop();
  thread_.join();
}

void HostWorker::send(const SweepCase& planned) {
  const std::lock_guard lock(mutex_);
  given_ = planned;
  changed_.notify_all();
}

std::optional<WorkerNews> HostWorker::receive(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return !news_.empty() || error_; });
  if (!news_.empty()) {
    WorkerNews news = std::move(news_.front());
    news_.pop_front();
    return news;
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return std::nullopt;
}

bool HostWorker::alive() {
  const std::lock_guard lock(mutex_);
  return !stop_;
}

void HostWorker::stop() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  changed_.notify_all();
}

void HostWorker::tell(WorkerNews news) {
  const std::lock_guard lock(mutex_);
  news_.push_back(std::move(news));
  changed_.notify_all();
}

void HostWorker::work() {
  const WorkerHost::Watch watch{[this] { return !alive(); },
                                [this](const std::string& what, const std::string& trial) {
                                  tell({what, trial, std::nullopt});
                                }};
  for (;;) {
    std::optional<SweepCase> planned;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || given_; });
      if (stop_) return;
      planned = std::exchange(given_, std::nullopt);
    }
    try {
      tell({"", "", host_.run(*planned, watch)});
    } catch (const Cancelled&) {
      return;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      changed_.notify_all();
    }
  }
}

}  // namespace wide
