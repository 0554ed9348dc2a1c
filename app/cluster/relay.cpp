#include "app/cluster/relay.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace wide {
namespace {

/// Precedes each message on the socket, in both directions.
struct RelayHeader {
  int32_t rank = 0;
  int64_t size = 0;
} __attribute__((packed));

struct Relay {
  int socket = -1;
  std::string come;  // bytes received that `take` has not taken yet
};

Relay& relay() {
  static Relay only;
  return only;
}

/// Ends this rank because the process that relays its messages is gone.
[[noreturn]] void without_parent() { std::_Exit(1); }

void put(const void* data, size_t size) {
  for (const char* at = static_cast<const char*>(data); size > 0;) {
    const ssize_t sent = ::send(relay().socket, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) without_parent();
    at += sent;
    size -= static_cast<size_t>(sent);
  }
}

void relay_send(int to, const char* text, size_t size) {
  const RelayHeader header{to, static_cast<int64_t>(size)};
  put(&header, sizeof header);
  put(text, size);
}

int64_t relay_probe(int* from) {
  char buffer[1 << 16];
  ssize_t got = 0;
  while ((got = ::recv(relay().socket, buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
    relay().come.append(buffer, static_cast<size_t>(got));
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) without_parent();
  RelayHeader header;
  if (relay().come.size() < sizeof header) return -1;
  std::memcpy(&header, relay().come.data(), sizeof header);
  if (relay().come.size() < sizeof header + static_cast<size_t>(header.size)) return -1;
  *from = header.rank;
  return header.size;
}

void relay_take(int, char* text, size_t size) {
  std::memcpy(text, relay().come.data() + sizeof(RelayHeader), size);
  relay().come.erase(0, sizeof(RelayHeader) + size);
}

bool relay_sent() { return true; }

void relay_finish() { ::close(relay().socket); }

void relay_abort(int code) {
  relay_send(-1, "", 0);
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace

const MpiTransport* relay_transport(int socket, int rank, int size) {
  static MpiTransport transport{rank,       size,       relay_send,   relay_probe,
                                relay_take, relay_sent, relay_finish, relay_abort};
  relay().socket = socket;
  return &transport;
}

}  // namespace wide
