#include "app/cluster/rank_worker.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "app/cancel.h"
#include "app/cli.h"
#include "app/version.h"
#include "app/worker/host_worker.h"
#include "data/machine/peaks.h"
#include "data/reports/sweep/report_json.h"
#include "data/reports/sweep/report_read.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr milliseconds kLook{10};
constexpr milliseconds kServe{20};  // of a rank's worker, which is listened to meanwhile
constexpr double kGreetingS = 120;  // for peaks that were never measured there

std::vector<int> bound_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set)) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

Environment environment_of_json(const Json& json) {
  Environment environment;
  read_fields(json, "rank", UnknownFields::refused,
              [&](Fields& fields) { describe(fields, environment); });
  return environment;
}

void expect_own_cores(const std::vector<MeasuringRank>& ranks) {
  std::set<std::pair<std::string, int>> taken;
  for (const MeasuringRank& r : ranks)
    for (const int core : r.cores)
      if (!taken.emplace(r.environment.host, core).second)
        fail(
            "[sweep] ranks: got two that measure on core {} of {}, expected one; try "
            "--allow-sharing, or mpirun --map-by ppr:1:node",
            core, r.environment.host);
}

/// Times of two programs do not belong into one sweep.
void expect_same_program(const MeasuringRank& rank, const MeasuringRank& first) {
  const Environment &a = rank.environment, &b = first.environment;
  if (a.libtorch != b.libtorch || a.workbench != b.workbench)
    throw Error(fmt::format("[sweep] rank {}: got workbench {} with LibTorch {} there, expected {} "
                            "with {} as on rank {}; try the same program on all machines",
                            rank.rank, printable(a.workbench), printable(a.libtorch),
                            printable(b.workbench), printable(b.libtorch), first.rank),
                1);
}

}  // namespace

std::vector<MeasuringRank> measuring_ranks(Cluster& cluster, const std::vector<PlannedCase>& cases,
                                           bool sharing) {
  const std::string plan = plan_digest(cases);
  std::vector<MeasuringRank> ranks;
  for (int rank = 1; rank < cluster.size(); ++rank) {
    std::optional<Json> hello;
    while (!(hello = cluster.take(rank))) {
      check_cancelled();
      if (cluster.silent_s(rank) > kGreetingS)
        throw Error(fmt::format("[sweep] rank {}: got nothing for {} s, expected it to answer; try "
                                "mpirun again",
                                rank, kGreetingS),
                    1);
      std::this_thread::sleep_for(kLook);
    }
    if (hello->at("plan") != plan)
      throw Error(
          fmt::format("[sweep] rank {}: got another plan there, expected that of rank 0; try "
                      "the same program and presets on all machines",
                      rank),
          1);
    ranks.push_back({rank, environment_of_json(hello->at("environment")),
                     hello->at("cores").get<std::vector<int>>()});
    expect_same_program(ranks.back(), ranks.front());
  }
  if (!sharing) expect_own_cores(ranks);
  return ranks;
}

RankWorker::RankWorker(Cluster& cluster, const MeasuringRank& rank,
                       const std::vector<PlannedCase>& cases, size_t planned)
    : cluster_(cluster),
      rank_(rank.rank),
      machine_(machine_name(rank.environment)),
      cases_(cases),
      planned_(planned) {}

void RankWorker::send(const PlannedCase& planned) {
  cluster_.send(rank_, {{"case", static_cast<size_t>(&planned - cases_.data()) % planned_}});
}

std::optional<WorkerNews> RankWorker::receive(milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  std::optional<Json> message;
  while (!(message = cluster_.take(rank_))) {
    if (std::chrono::steady_clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(kLook);
  }
  if (message->contains("error"))
    throw Error(message->at("error").get<std::string>(), message->at("exit_code").get<int>());
  if (!message->contains("result"))
    return WorkerNews{message->at("stage"), message->at("name"), std::nullopt};
  WorkerNews news;
  news.result = case_from_json(message->at("result"), "rank");
  news.result->machine = machine_;
  return news;
}

bool RankWorker::alive() { return !stopped_ && cluster_.silent_s(rank_) < kLostS; }

std::string RankWorker::name() const { return fmt::format("rank {} ({})", rank_, machine_); }

void RankWorker::stop() { stopped_ = true; }

int serve_rank(Cluster& cluster, const std::vector<PlannedCase>& cases, SweepSettings settings) {
  catch_cancel();
  Environment environment = capture_environment(typed_command(), version(), git_state());
  settings.peaks_device = cases.front().device;
  settings.peaks = machine_peaks(settings.peaks_device, settings.threads);
  settings.tuning_db.clear();  // rank 0 alone opens the store
  add_peaks(environment, *settings.peaks);
  cluster.send(0, {{"plan", plan_digest(cases)},
                   {"environment", to_json(environment)},
                   {"cores", bound_cores()}});
  HostWorker worker(settings);
  for (;;) {
    if (const auto message = cluster.take(0)) {
      if (message->contains("bye")) return cancelled() ? 130 : 0;
      worker.send(cases.at(message->at("case").get<size_t>()));
    }
    // Without rank 0 there is nobody to work for.
    if (cluster.silent_s(0) > kLostS && cancelled()) return 130;
    try {
      const auto news = worker.receive(kServe);
      if (news && news->result)
        cluster.send(0, {{"result", to_json(*news->result)}});
      else if (news)
        cluster.send(0, {{"stage", news->stage}, {"name", news->trial}});
    } catch (const Error& e) {
      cluster.send(0, {{"error", e.what()}, {"exit_code", e.exit_code()}});
    }
  }
}

}  // namespace wide
