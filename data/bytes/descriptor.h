#pragma once
#include <optional>
#include <string>
#include <utility>

namespace wide {

/// Owns a file descriptor and closes it.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }

  bool open() const { return fd_ >= 0; }
  int get() const { return fd_; }  // -1: none, which poll() ignores
  void close();

 private:
  int fd_;
};

/// A pipe that programs started later do not inherit; nullopt if there is none (`errno` says why).
struct Pipe {
  Descriptor read, write;
};
std::optional<Pipe> make_pipe();

enum class Got { something, nothing, end };
/// Appends what one read of up to 64 KB returns to `into`. `nothing`: a non-blocking descriptor has
/// none now. `end`: of the stream, or an error.
Got read_some(const Descriptor& from, std::string* into);
/// The same for a blocking descriptor, which is closed at the end. Whether anything was read.
bool read_or_close(Descriptor* from, std::string* into);

}  // namespace wide
