#pragma once
#include <string>
#include <vector>

namespace wide {

/// A lock on a run's folder (flock on `run.lock`): one process at a time can hold it. The kernel
/// releases it when the process ends, however it ends. The file names host, process and start, for
/// the error message of other processes.
class RunLock {
 public:
  /// Makes the folder if it does not exist. Throws Error (exit code 1) if another process holds the
  /// lock, or the folder cannot be written.
  explicit RunLock(std::string folder);
  /// Removes the lock's file, and the folders that were made if they are still empty.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Why there is no lock (a file system without locks), for a note; "" if it is held.
  const std::string& lack() const { return lack_; }

 private:
  void make_folder();
  bool open_file();
  [[noreturn]] void refuse() const;
  [[noreturn]] void cannot_write(const std::string& why) const;
  void write_owner() const;

  std::string folder_, file_, lack_;
  std::vector<std::string> made_;  // folders, outer ones first
  int fd_ = -1;
};

}  // namespace wide
