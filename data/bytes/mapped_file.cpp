#include "data/bytes/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "data/bytes/descriptor.h"
#include "data/bytes/refuse.h"

namespace wide {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: else opening a named pipe waits until a program opens it for writing.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.open()) refuse(path, "file", std::strerror(errno), "a readable file", "check the path");
  struct stat info {};
  if (::fstat(file.get(), &info) || !S_ISREG(info.st_mode))
    refuse(path, "file", "a folder, pipe or device", "a regular file", "give the path of a file");
  size_ = static_cast<size_t>(info.st_size);
  if (!size_) return;
  void* at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0);
  if (at == MAP_FAILED)
    refuse(path, "file", std::strerror(errno), "a file that can be mapped",
           "free memory, or copy it to a local disk");
  bytes_ = static_cast<char*>(at);
}

MappedFile::~MappedFile() {
  if (bytes_) ::munmap(bytes_, size_);
}

}  // namespace wide
