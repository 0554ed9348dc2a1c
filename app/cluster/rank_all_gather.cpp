#include "app/cluster/rank_all_gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/cancel.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kPause{5};
/// After another rank has failed, how long this one waits for an error of its own, which says more
/// if the cause is common to all.
constexpr std::chrono::seconds kOwnError{3};
constexpr int kCancelled = 130;
constexpr std::chrono::seconds kOthersEnd{10};  // for the other ranks to end after one has failed

}  // namespace

RankAllGather::RankAllGather(std::unique_ptr<Cluster> cluster, std::string advice)
    : cluster_(std::move(cluster)),
      advice_(std::move(advice)),
      peers_(static_cast<size_t>(cluster_->size())) {}

void RankAllGather::send(const Json& value) {
  waiting_ = true;
  if (cluster_->rank() == 0)
    peers_.front().values.push_back(value);
  else
    cluster_->send(0, {{"value", value}});
}

void RankAllGather::listen() {
  if (cluster_->rank() > 0) {
    while (const auto message = cluster_->take(0)) {
      if (message->contains("bye")) over_ = message->at("code").get<int>();
      if (message->contains("values")) gathered_.push_back(message->at("values"));
    }
    return;
  }
  for (int rank = 1; rank < cluster_->size(); ++rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    while (const auto message = cluster_->take(rank)) {
      if (message->contains("value")) peer.values.push_back(message->at("value"));
      if (!message->contains("ended")) continue;
      peer.code = message->at("ended").get<int>();
      message->at("line").get_to(peer.line);
    }
  }
}

int RankAllGather::failed() const {
  for (size_t rank = 0; rank < peers_.size(); ++rank)
    if (peers_[rank].code.value_or(0) != 0) return static_cast<int>(rank);
  return -1;
}

void RankAllGather::expect_alive() {
  const auto expect = [&](int rank) {
    if (peers_[static_cast<size_t>(rank)].code || cluster_->silent_s(rank) <= kLostS) return;
    const std::string line = fmt::format(
        "[train] rank {}: got no heartbeat for {} s, expected one; try {}", rank, kLostS, advice_);
    cluster_->set_code(1);
    cluster_->give_up(cluster_->rank() == (rank == 0 ? 1 : 0) ? line
                                                              : "");  // only one rank prints it
    throw Error(line, 1);
  };
  if (cluster_->rank() > 0) return expect(0);
  for (int rank = 1; rank < cluster_->size(); ++rank) expect(rank);
}

std::optional<Json> RankAllGather::received() {
  listen();
  expect_alive();
  if (over_)
    throw Error(
        "[train] rank 0: got an exit before the run was finished, expected it to be running; try "
        "mpirun again",
        *over_ == 0 ? 1 : *over_);
  if (const int rank = failed(); rank >= 0) {
    if (!failed_since_) failed_since_ = Clock::now();
    const Peer& peer = peers_[static_cast<size_t>(rank)];
    if (Clock::now() - *failed_since_ > kOwnError)
      throw Error(peer.line.empty()
                      ? fmt::format("[train] rank {}: got exit code {} before the run "
                                    "was finished, expected it to be running; try {}",
                                    rank, *peer.code, advice_)
                      : fmt::format("{} (rank {})", peer.line, rank),
                  *peer.code);
  }
  if (!waiting_) return std::nullopt;
  if (cluster_->rank() == 0 &&
      std::ranges::none_of(peers_, [](const Peer& p) { return p.values.empty(); })) {
    Json all = Json::array();
    for (Peer& peer : peers_) {
      all.push_back(std::move(peer.values.front()));
      peer.values.erase(peer.values.begin());
    }
    for (int rank = 1; rank < cluster_->size(); ++rank) cluster_->send(rank, {{"values", all}});
    gathered_.push_back(std::move(all));
  }
  if (gathered_.empty()) return std::nullopt;
  waiting_ = false;
  Json values = std::move(gathered_.front());
  gathered_.erase(gathered_.begin());
  return values;
}

int RankAllGather::end(int code, const std::string& line) {
  cluster_->set_code(code);
  const auto begun = Clock::now();
  if (cluster_->rank() > 0) cluster_->send(0, {{"ended", code}, {"line", line}});
  for (;; std::this_thread::sleep_for(kPause)) {
    listen();
    const bool all = cluster_->rank() > 0 ? over_.has_value()
                                          : std::all_of(peers_.begin() + 1, peers_.end(),
                                                        [](const Peer& p) { return p.code; });
    if (all) break;
    try {
      expect_alive();
    } catch (const Error&) {
      if (code == 0) throw;
      if (cluster_->rank() == 0) cluster_->give_up(line);
      return code;
    }
    if ((code != 0 || failed() >= 0) && Clock::now() - begun > kOthersEnd) {
      cluster_->give_up(cluster_->rank() == 0 ? line : "");
      break;
    }
    // Exit code 130 without Ctrl-C in this process: another rank asked all to stop, a normal end.
    const bool at_its_end = code == 0 || (code == kCancelled && !cancelled());
    if (at_its_end || cluster_->rank() > 0) continue;
    break;  // ~Cluster tells the others to end
  }
  if (const int rank = failed(); code == 0 && rank >= 0)
    return *peers_[static_cast<size_t>(rank)].code;
  return code;
}

}  // namespace wide
