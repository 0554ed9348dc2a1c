#pragma once
#include <string>
#include <string_view>

namespace wide {

/// A file mapped into memory, privately: writing to the memory never changes the file.
class MappedFile {
 public:
  /// Throws Error (exit code 2) unless `path` is a regular file that can be opened and mapped. For
  /// an empty file data() is nullptr. If another program shortens the file, reading beyond its new
  /// end raises SIGBUS: the sandbox makes one line of it, elsewhere the process crashes.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  char* data() const { return bytes_; }
  std::string_view bytes() const { return {bytes_, size_}; }

 private:
  std::string path_;
  char* bytes_ = nullptr;
  size_t size_ = 0;
};

}  // namespace wide
