#include "data/bytes/part_file.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>

#include "data/text.h"
#include "engine/error.h"

namespace wide {

PartFile::PartFile(std::string path) : path_(std::move(path)), made_(places().file(path_)) {
  const int copy = fcntl(made_->descriptor(), F_DUPFD_CLOEXEC, 0);
  file_ = copy < 0 ? nullptr : fdopen(copy, "wb");
  if (!file_) error_ = errno;
}

PartFile::~PartFile() {
  if (file_) std::fclose(file_);
}

void PartFile::write(const void* data, size_t size) {
  if (error_ || !size) return;
  if (std::fwrite(data, 1, size, file_) != size) error_ = errno ? errno : EIO;
}

void PartFile::commit() {
  if (file_ && std::fclose(file_) && !error_) error_ = errno;
  file_ = nullptr;
  if (error_) refuse_writing(path_, error_);
  made_->commit();
}

void write_file(const std::string& path, const std::string& text) {
  PartFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

void check_writable_place(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(path, error))
    fail("[{}] path: got a folder, expected a file to write; try a name in it", printable(path));
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty() && !fs::is_directory(parent, error))
    fail("[{}] folder: got none, expected one to write into; try mkdir", printable(path));
}

}  // namespace wide
