#pragma once
#include <cstdio>
#include <memory>
#include <string>

#include "data/bytes/new_file.h"

namespace wide {

/// A file that appears under its name only when all of it is written and on the disk; nothing is
/// left of it when writing fails.
class PartFile {
 public:
  /// Throws Error (exit code 1) where the file cannot be made.
  explicit PartFile(std::string path);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  /// A failure is kept for `commit`: the writers of archives do not survive it themselves.
  void write(const void* data, size_t size);
  /// Gives the file its name. Throws Error (exit code 1) when anything before failed.
  void commit();

 private:
  std::string path_;
  std::unique_ptr<NewFile> made_;
  std::FILE* file_ = nullptr;
  int error_ = 0;  // errno of the first failure
};

/// Throws Error (exit code 2) where `path` lies in no folder or is one: said before the work.
void check_writable_place(const std::string& path);

}  // namespace wide
