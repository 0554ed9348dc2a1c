#include "app/cluster/cluster.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/cancel.h"
#include "app/cluster/launch.h"
#include "app/cluster/relay.h"
#include "app/cluster/transport.h"
#include "data/escape.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kAlive{5};      // between heartbeats
constexpr std::chrono::seconds kFarewell{10};  // limit for handing over the last messages
constexpr std::chrono::milliseconds kHastyFarewell{300};
constexpr const char* kEmpty = "{}";  // a heartbeat

}  // namespace

std::unique_ptr<Cluster> Cluster::join() {
  const Launch& l = launch();
  if (!l.refusal.empty()) throw Error(l.refusal, 1);
  if (!l.mpi) return nullptr;
  if (l.relay >= 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    return std::unique_ptr<Cluster>(new Cluster(relay_transport(l.relay, l.rank, l.size)));
  }
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string plugin = program.parent_path() / "workbench_mpi.so";
  // RTLD_GLOBAL: Open MPI loads plugins of its own, which need its libraries' symbols.
  void* handle = dlopen(plugin.c_str(), RTLD_NOW | RTLD_GLOBAL);
  const auto join = handle ? reinterpret_cast<JoinMpi>(dlsym(handle, kJoinMpi)) : nullptr;
  if (!join) {
    const char* why = std::filesystem::exists(plugin, error) ? dlerror() : nullptr;
    throw Error(fmt::format("[mpi] plugin: got {}, expected {} beside the program; try apt-get "
                            "install libopenmpi-dev and build again",
                            why ? printable(why, 200) : "none", "workbench_mpi.so"),
                1);
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // end with the launcher, which may be killed
  const MpiTransport* transport = join();
  if (!transport)
    throw Error("[mpi] ranks: got none that answer, expected those of mpirun; try mpirun again", 1);
  return std::unique_ptr<Cluster>(new Cluster(transport));
}

Cluster::Cluster(const MpiTransport* transport)
    : transport_(transport), rank_(transport->rank), peers_(static_cast<size_t>(transport->size)) {}

Cluster::~Cluster() {
  bool lost = given_up_;
  if (rank_ == 0)
    for (int other = 1; other < size(); ++other) {
      lost |= silent_s(other) > kLostS;
      send(other, {{"bye", true}, {"code", code_}});
    }
  const bool stopped = !lost && cancelled();
  const auto end = Clock::now() + (stopped ? kHastyFarewell : kFarewell);
  while (!lost && !transport_->sent() && Clock::now() < end) pump();
  if (lost && !last_words_.empty()) write_stderr(clean_text(last_words_) + "\n");
  std::fflush(nullptr);
  // mpirun, which stopped this rank, stops the others too, and kills ranks that do not end soon.
  if (stopped) return;
  // `finish` waits for all ranks: with a lost one it would never return.
  if (lost || !transport_->sent())
    transport_->abort(code_);
  else
    transport_->finish();
}

void Cluster::give_up(const std::string& line) {
  given_up_ = true;
  last_words_ = line;
}

void Cluster::send(int to, const Json& message) {
  const std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  transport_->send(to, text.data(), text.size());
}

void Cluster::pump() {
  // Time in which this process itself was suspended does not count as the others' silence.
  const auto now = Clock::now(), before = std::exchange(turn_, now);
  if (now - before > kAlive)
    for (Peer& peer : peers_) peer.heard += now - before;
  int from = 0;
  for (int64_t size = 0; (size = transport_->probe(&from)) >= 0;) {
    std::string text(static_cast<size_t>(size), '\0');
    transport_->take(from, text.data(), text.size());
    Peer& peer = peers_.at(static_cast<size_t>(from));
    peer.heard = Clock::now();
    if (text != kEmpty) peer.messages.push_back(std::move(text));
  }
  if (Clock::now() - said_ > kAlive) say_alive();
}

void Cluster::say_alive() {
  said_ = Clock::now();
  if (rank_ > 0) return transport_->send(0, kEmpty, 2);
  for (int other = 1; other < size(); ++other) transport_->send(other, kEmpty, 2);
}

std::optional<Json> Cluster::take(int from) {
  pump();
  Peer& peer = peers_.at(static_cast<size_t>(from));
  if (peer.messages.empty()) return std::nullopt;
  Json message = Json::parse(peer.messages.front());
  peer.messages.pop_front();
  return message;
}

double Cluster::silent_s(int rank) {
  pump();
  const auto since = Clock::now() - peers_.at(static_cast<size_t>(rank)).heard;
  return std::chrono::duration<double>(since).count();
}

}  // namespace wide
