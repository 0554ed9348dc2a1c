#include "data/bytes/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "data/bytes/refuse.h"

namespace wide {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK, as opening a pipe would wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) refuse(path, "file", std::strerror(errno), "a readable file", "check the path");
  struct stat info {};
  if (::fstat(fd, &info) || !S_ISREG(info.st_mode)) {
    ::close(fd);
    refuse(path, "file", "something else", "a regular file", "check the path");
  }
  size_ = static_cast<size_t>(info.st_size);
  if (!size_) {
    ::close(fd);
    return;
  }
  void* at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  const int error = errno;
  ::close(fd);
  if (at == MAP_FAILED) refuse(path, "file", std::strerror(error), "a file that can be mapped");
  bytes_ = static_cast<char*>(at);
}

MappedFile::~MappedFile() {
  if (bytes_) ::munmap(bytes_, size_);
}

}  // namespace wide
