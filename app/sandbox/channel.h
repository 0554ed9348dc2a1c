#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

// Messages between the sandbox and the process that opened it: a length, then CBOR (which keeps
// every number and every byte of a text), over a socket that also passes open file descriptors.
namespace wide {

using Message = nlohmann::ordered_json;

/// One end of the socket, which it owns.
class Channel {
 public:
  explicit Channel(int socket) : socket_(socket) {}
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int socket() const { return socket_; }

  /// `descriptor` goes with it, unless it is -1. False where nobody reads: the other end is gone,
  /// or (with `patient` false) has let too much lie.
  bool send(const Message& message, int descriptor = -1, bool patient = true) const;

  /// The next message that is there in whole, what was read so far included; nullopt: not yet.
  /// Throws Garbage for anything else than a message.
  std::optional<Message> take();
  /// Reads what is there, at most a buffer full; false at the end. Waits for something.
  bool read();
  /// The descriptor that came with what was read last; -1: none. The caller owns it.
  int take_descriptor();

  struct Garbage {};

 private:
  int socket_, descriptor_ = -1;
  std::string received_;
};

/// Two connected ends. Throws Error with exit code 1.
std::pair<int, int> socket_pair();

}  // namespace wide
