#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace wide {

/// Work that takes longer than a frame: runs on other threads, and delivers its results on the
/// window's thread. Of several jobs with one key only the newest delivers its result.
class Jobs {
 public:
  /// Runs on the window's thread and applies the result of the work.
  using Result = std::function<void()>;

  Jobs();
  ~Jobs();
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  /// Runs `work` on another thread; it returns what applies its result. Exceptions go to `failed`.
  void start(const std::string& key, std::function<Result()> work);
  /// Delivers finished results. True if there were any.
  bool deliver();
  /// Whether any job runs or waits to be delivered.
  bool busy() const;
  /// The same for jobs with this key.
  bool busy(const std::string& key) const;
  /// Delivers until no job is left; false if `seconds` have passed before.
  bool finish(double seconds = 30);

  /// Sets a function that is called, on any thread, when a result can be delivered.
  void set_wake(std::function<void()> wake);
  void wake();

  std::function<void(const std::string& line)> failed = [](const std::string&) {};

 private:
  struct Job {
    std::string key;
    uint64_t number;
    std::function<Result()> work;
    Result result = {};  // of the work; empty if it failed
    std::string error = {};
  };
  void serve();

  mutable std::mutex mutex_;
  std::condition_variable more_, less_;
  std::deque<Job> waiting_, done_;
  std::map<std::string, uint64_t> newest_;
  std::map<std::string, int> running_;
  std::function<void()> wake_ = [] {};
  uint64_t next_ = 1;
  bool end_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace wide
