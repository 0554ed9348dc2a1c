#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "data/bytes/descriptor.h"

// Messages between the sandbox and the process that opened it: a length, then CBOR (which keeps
// every number and every byte of a text), over a socket that also passes open file descriptors.
namespace wide {

using Message = nlohmann::ordered_json;

/// One end of the socket; closes it when destroyed.
class Channel {
 public:
  explicit Channel(int socket) : socket_(socket) {}

  int socket() const { return socket_.get(); }

  /// Sends a message, and `descriptor` unless that is -1. False if the other end is gone, or if its
  /// buffer is full and `patient` is false.
  bool send(const Message& message, int descriptor = -1, bool patient = true) const;

  /// The next message that has been read completely; nullopt if there is none yet. Throws Garbage
  /// for bytes that are no message.
  std::optional<Message> take();
  /// Waits until something arrives and reads it, at most one buffer; false at the end of the
  /// stream.
  bool read();
  /// The descriptor that came with the bytes read last, if one did.
  Descriptor take_descriptor() { return std::move(descriptor_); }

  struct Garbage {};

 private:
  Descriptor socket_, descriptor_;
  std::string received_;
};

/// Two connected ends. Throws Error with exit code 1.
std::pair<int, int> socket_pair();

}  // namespace wide
