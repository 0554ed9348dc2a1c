#include "app/sandbox/channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/error.h"

namespace wide {
namespace {

constexpr size_t kLongest = 64u << 20u;  // bytes: more is no message
constexpr size_t kDeepest = 64;          // nested objects; more could overflow the stack

/// Builds a message as the library itself does, but of bounded depth.
class Builder : public nlohmann::detail::json_sax_dom_parser<Message> {
  using Base = nlohmann::detail::json_sax_dom_parser<Message>;

 public:
  explicit Builder(Message& into) : Base(into, /*allow_exceptions=*/false) {}
  bool start_object(size_t size) { return ++depth_ <= kDeepest && Base::start_object(size); }
  bool start_array(size_t size) { return ++depth_ <= kDeepest && Base::start_array(size); }
  bool end_object() { return --depth_, Base::end_object(); }
  bool end_array() { return --depth_, Base::end_array(); }

 private:
  size_t depth_ = 0;
};

}  // namespace

bool Channel::send(const Message& message, int descriptor, bool patient) const {
  std::string text(sizeof(uint32_t), 0);
  Message::to_cbor(message, text);
  const auto length = static_cast<uint32_t>(text.size() - sizeof(uint32_t));
  std::memcpy(text.data(), &length, sizeof length);
  for (size_t done = 0; done < text.size();) {
    iovec part{text.data() + done, text.size() - done};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr head{};
    head.msg_iov = &part;
    head.msg_iovlen = 1;
    if (descriptor >= 0 && done == 0) {
      head.msg_control = control;
      head.msg_controllen = sizeof control;
      cmsghdr* rights = CMSG_FIRSTHDR(&head);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
    }
    const ssize_t sent = ::sendmsg(socket(), &head, MSG_NOSIGNAL | (patient ? 0 : MSG_DONTWAIT));
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    done += static_cast<size_t>(sent);
  }
  return true;
}

std::optional<Message> Channel::take() {
  uint32_t length = 0;
  if (received_.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, received_.data(), sizeof length);
  if (length > kLongest) throw Garbage();
  if (received_.size() < sizeof length + length) return std::nullopt;
  const auto begin = received_.begin() + sizeof length;
  Message message;
  Builder builder(message);
  try {
    if (!Message::sax_parse(begin, begin + length, &builder, Message::input_format_t::cbor) ||
        !message.is_object())
      throw Garbage();
  } catch (const Message::exception&) {
    throw Garbage();
  }
  received_.erase(0, sizeof length + length);
  return message;
}

bool Channel::read() {
  char buffer[1 << 16];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec part{buffer, sizeof buffer};
  msghdr head{};
  head.msg_iov = &part;
  head.msg_iovlen = 1;
  head.msg_control = control;
  head.msg_controllen = sizeof control;
  ssize_t got = 0;
  while ((got = ::recvmsg(socket(), &head, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  if (got <= 0) return false;
  for (cmsghdr* c = CMSG_FIRSTHDR(&head); c; c = CMSG_NXTHDR(&head, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    int passed = -1;
    std::memcpy(&passed, CMSG_DATA(c), sizeof passed);
    descriptor_ = Descriptor(passed);
  }
  received_.append(buffer, static_cast<size_t>(got));
  return true;
}

std::pair<int, int> socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
    throw Error(
        fmt::format("[sandbox] process: got {}, expected a socket; try again with fewer open "
                    "files",
                    std::strerror(errno)),
        1);
  return {ends[0], ends[1]};
}

}  // namespace wide
