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

/// Work that takes longer than a frame: done on threads of its own, its results handed over on the
/// thread of the window. Of several jobs of one key only the result of the newest counts.
class Jobs {
 public:
  /// Runs on the window's thread, with what the work found out.
  using Result = std::function<void()>;

  Jobs();
  ~Jobs();
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  /// `work` runs elsewhere and gives what is to be done here. What it throws goes to `failed`.
  void start(const std::string& key, std::function<Result()> work);
  /// Hands over what is done. True when there was something.
  bool deliver();
  /// Whether anything runs or waits to be delivered.
  bool busy() const;
  /// Whether something of this key does.
  bool busy(const std::string& key) const;
  /// Delivers until nothing runs any more, or `seconds` have passed; false then.
  bool finish(double seconds = 30);

  /// What is called, on any thread, when something can be delivered.
  void set_wake(std::function<void()> wake);
  void wake();

  std::function<void(const std::string& line)> failed = [](const std::string&) {};

 private:
  struct Job {
    std::string key;
    uint64_t number;
    std::function<Result()> work;
  };
  struct Done {
    std::string key;
    uint64_t number;
    Result result;
    std::string error;
  };
  void serve();

  mutable std::mutex mutex_;
  std::condition_variable more_, less_;
  std::deque<Job> waiting_;
  std::deque<Done> done_;
  std::map<std::string, uint64_t> newest_;
  std::map<std::string, int> running_;
  std::function<void()> wake_ = [] {};
  uint64_t next_ = 1;
  bool end_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace wide
