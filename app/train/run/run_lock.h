#pragma once
#include <string>
#include <vector>

namespace wide {

/// Keeps other processes out of a run's folder: while this object lives, none can make another one
/// of the same folder. The kernel ends the lock with the process, however that ends. The lock's
/// file, `run.lock`, names host, process and start, for the message of whoever is kept out.
class RunLock {
 public:
  /// Makes the folder where there is none. Throws Error (exit code 1) where another process has the
  /// lock, and where nothing can be written.
  explicit RunLock(std::string folder);
  /// Removes the lock's file, and the folders that were made if they are still empty.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Why other processes are not kept out, in words; "": they are.
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
