#pragma once
#include <cstdio>
#include <memory>
#include <string>

#include "data/bytes/new_file.h"

namespace wide {

/// A file that appears under its name only once it is completely on the disk. If writing fails,
/// nothing of it remains.
class PartFile {
 public:
  /// Throws Error (exit code 1) if the file cannot be made.
  explicit PartFile(std::string path);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  /// Writes bytes. A failure is reported by `commit`, since the archive writers that call this
  /// cannot handle exceptions.
  void write(const void* data, size_t size);
  /// Gives the file its name. Throws Error (exit code 1) if this or an earlier step failed.
  void commit();

 private:
  std::string path_;
  std::unique_ptr<NewFile> made_;
  std::FILE* file_ = nullptr;
  int error_ = 0;  // errno of the first failure
};

/// Writes a file that holds `text`: all of it, or none. Throws Error (exit code 1).
void write_file(const std::string& path, const std::string& text);

/// Throws Error (exit code 2) if the folder of `path` does not exist or `path` is a folder; called
/// before long work begins.
void check_writable_place(const std::string& path);

}  // namespace wide
