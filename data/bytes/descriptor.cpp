#include "data/bytes/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace wide {

void Descriptor::close() {
  if (open()) ::close(fd_);
  fd_ = -1;
}

std::optional<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return std::nullopt;
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

Got read_some(const Descriptor& from, std::string* into) {
  char buffer[1 << 16];
  ssize_t got = -1;
  do got = ::read(from.get(), buffer, sizeof buffer);
  while (got < 0 && errno == EINTR);
  if (got > 0) into->append(buffer, static_cast<size_t>(got));
  if (got > 0) return Got::something;
  return got < 0 && errno == EAGAIN ? Got::nothing : Got::end;
}

bool read_or_close(Descriptor* from, std::string* into) {
  const Got got = read_some(*from, into);
  if (got == Got::end) from->close();
  return got == Got::something;
}

}  // namespace wide
