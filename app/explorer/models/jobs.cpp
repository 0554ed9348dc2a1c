#include "app/explorer/models/jobs.h"

#include <algorithm>
#include <chrono>

#include "data/one_line.h"
#include "data/text.h"

namespace wide {

Jobs::Jobs() {
  // Two threads: a long comparison must not hold up a click on a point.
  for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { serve(); });
}

Jobs::~Jobs() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
    waiting_.clear();
  }
  more_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void Jobs::set_wake(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void Jobs::wake() {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    call = wake_;
  }
  call();
}

void Jobs::start(const std::string& key, std::function<Result()> work) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&](const Job& job) { return job.key == key; });
    newest_[key] = next_;
    waiting_.push_back({key, next_++, std::move(work)});
  }
  more_.notify_one();
}

void Jobs::serve() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      more_.wait(lock, [this] { return end_ || !waiting_.empty(); });
      if (end_) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
      ++running_[job.key];
    }
    try {
      job.result = job.work();
    } catch (const std::exception& e) {
      job.error = one_line(e);
    }
    job.work = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (--running_[job.key] == 0) running_.erase(job.key);
      done_.push_back(std::move(job));
    }
    less_.notify_all();
    wake();
  }
}

bool Jobs::deliver() {
  std::deque<Job> ready;
  {
    const std::lock_guard lock(mutex_);
    ready.swap(done_);
  }
  // A result that is delivered may start a newer job with the key of a later one.
  const auto outdated = [this](const Job& job) {
    const std::lock_guard lock(mutex_);
    return newest_[job.key] != job.number;
  };
  bool delivered = false;
  for (const Job& job : ready) {
    if (outdated(job)) continue;
    delivered = true;
    if (!job.error.empty())
      failed(job.error);
    else if (job.result)
      job.result();
  }
  return delivered;
}

bool Jobs::busy() const {
  const std::lock_guard lock(mutex_);
  return !waiting_.empty() || !running_.empty() || !done_.empty();
}

bool Jobs::busy(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto same = [&](const auto& x) { return x.key == key; };
  return running_.count(key) != 0 || std::any_of(waiting_.begin(), waiting_.end(), same) ||
         std::any_of(done_.begin(), done_.end(), same);
}

bool Jobs::finish(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (busy()) {
    if (std::chrono::steady_clock::now() > end) return false;
    if (deliver()) continue;
    std::unique_lock lock(mutex_);
    less_.wait_for(lock, std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace wide
