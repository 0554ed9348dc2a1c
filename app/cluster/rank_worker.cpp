#include "app/cluster/rank_worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "app/cancel.h"
#include "app/cli.h"
#include "app/cluster/launch.h"
#include "app/cluster/place.h"
#include "app/options.h"
#include "app/version.h"
#include "app/worker/host_worker.h"
#include "data/machine/gpu.h"
#include "data/machine/load.h"
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
constexpr milliseconds kServe{20};  // how long to wait for a rank's own worker
constexpr double kGreetingS = 120;  // long: a machine may have to measure its peaks first

Environment environment_of_json(const Json& json) {
  Environment environment;
  read_fields(json, "rank", UnknownFields::refused,
              [&](Fields& fields) { describe(fields, environment); });
  return environment;
}

void expect_own_place(const std::vector<MeasuringRank>& ranks) {
  std::set<std::pair<std::string, std::string>> taken;
  for (const MeasuringRank& r : ranks) {
    std::vector<std::string> places;
    for (const int core : r.cores) places.push_back(fmt::format("core {}", core));
    if (!r.gpu.empty()) places.push_back("GPU " + r.gpu);
    for (const std::string& place : places)
      if (!taken.emplace(r.environment.host, place).second)
        fail(
            "[sweep] ranks: got two that measure on {} of {}, expected one; try --allow-sharing, "
            "or "
            "mpirun --map-by ppr:1:node",
            printable(place), printable(r.environment.host));
  }
}

/// The next message of a rank. Throws Error if none comes in time.
Json heard_of(Cluster& cluster, int rank) {
  std::optional<Json> said;
  while (!(said = cluster.take(rank))) {
    check_cancelled();
    if (cluster.silent_s(rank) > kGreetingS)
      throw Error(fmt::format("[sweep] rank {}: got nothing for {} s, expected it to answer; try "
                              "mpirun again",
                              rank, kGreetingS),
                  1);
    std::this_thread::sleep_for(kLook);
  }
  return *said;
}

/// Tells every rank its number among the ranks of its machine.
void give_places(Cluster& cluster) {
  std::map<std::string, std::vector<int>> of_host;
  for (int rank = 1; rank < cluster.size(); ++rank)
    of_host[heard_of(cluster, rank).at("host")].push_back(rank);
  for (const auto& [host, ranks] : of_host)
    for (size_t i = 0; i < ranks.size(); ++i)
      cluster.send(ranks[i], {{"place", i}, {"of", ranks.size()}});
}

/// This rank's place, as rank 0 sends it; nullopt if rank 0 has ended or all are to end.
std::optional<RankPlace> own_place(Cluster& cluster) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  cluster.send(0, {{"host", host}});
  std::optional<Json> said;
  while (!(said = cluster.take(0))) {
    if (cancelled()) return std::nullopt;
    std::this_thread::sleep_for(kLook);
  }
  if (said->contains("bye")) return std::nullopt;
  return RankPlace{said->at("place").get<int>(), said->at("of").get<int>()};
}

/// The kind of GPU that each rank may choose for itself; nullptr if a case names a GPU other than
/// the first.
DeviceRuntime* shared_gpu(const std::vector<SweepCase>& cases) {
  DeviceRuntime* runtime = nullptr;
  for (const SweepCase& c : cases) {
    if (c.device.is_cpu()) continue;
    if (c.device.has_index() && c.device.index() > 0) return nullptr;
    runtime = device_runtime(c.device.type());
  }
  return runtime;
}

/// Binds this rank and its workers to the cores of its place, unless the user has bound it, and to
/// its GPU, whose name it returns and adds to the environment.
std::string take_place(const RankPlace& place, const std::vector<SweepCase>& cases,
                       Environment* environment) {
  DeviceRuntime* runtime = shared_gpu(cases);
  const int gpus = runtime ? static_cast<int>(runtime->count()) : 0;
  const bool all_on_gpu =
      std::ranges::none_of(cases, [](const SweepCase& c) { return c.device.is_cpu(); });
  if (!launch().bound) bind_to(cores_of(place, cores_by_socket(), all_on_gpu && place.of <= gpus));
  for (const SweepCase& c : cases)
    if (!c.device.is_cpu() && environment->gpu.empty())
      add_gpu(*environment,
              gpus > 0
                  ? c10::Device(c.device.type(), static_cast<c10::DeviceIndex>(place.number % gpus))
                  : c.device);
  if (gpus == 0) return "";
  const char* variable = "CUDA_VISIBLE_DEVICES";
  const std::string gpu = gpu_of(place, std::getenv(variable), gpus);
  setenv(variable, gpu.c_str(), 1);  // for workers: this process makes no context on a GPU
  return gpu;
}

/// Throws Error if two ranks run different programs: their times may not be mixed in one sweep.
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

std::vector<MeasuringRank> measuring_ranks(Cluster& cluster, const std::vector<SweepCase>& cases,
                                           bool sharing) {
  const std::string digest = cases_digest(cases);
  std::vector<MeasuringRank> ranks;
  give_places(cluster);
  for (int rank = 1; rank < cluster.size(); ++rank) {
    const Json hello = heard_of(cluster, rank);
    if (hello.at("cases") != digest)
      throw Error(
          fmt::format("[sweep] rank {}: got other cases there, expected those of rank 0; try "
                      "the same program and presets on all machines",
                      rank),
          1);
    ranks.push_back({rank, environment_of_json(hello.at("environment")),
                     hello.at("cores").get<std::vector<int>>(), hello.at("gpu")});
    expect_same_program(ranks.back(), ranks.front());
  }
  if (!sharing) expect_own_place(ranks);
  return ranks;
}

RankWorker::RankWorker(Cluster& cluster, const MeasuringRank& rank,
                       const std::vector<SweepCase>& cases, size_t planned)
    : cluster_(cluster),
      rank_(rank.rank),
      machine_(machine_name(rank.environment)),
      cases_(cases),
      planned_(planned) {}

void RankWorker::send(const SweepCase& planned) {
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

int serve_rank(Cluster& cluster, const std::vector<SweepCase>& cases, SweepSettings settings) {
  catch_cancel();
  const std::optional<RankPlace> place = own_place(cluster);
  if (!place) return cancelled() ? 130 : 0;
  allow_tf32(settings.tf32);
  Environment used;  // only its fields about the GPU are set
  const std::string gpu = take_place(*place, cases, &used);
  if (settings.all_cores) settings.threads = set_threads(usable_cores());
  Environment environment = capture_environment(typed_command(), version(), git_state());
  environment.gpu = used.gpu;
  environment.gpu_state = used.gpu_state;
  settings.peaks_device = cases.front().device;
  settings.peaks = settings.peaks_device.is_cpu()
                       ? machine_peaks(settings.peaks_device, settings.threads)
                       : peaks_by_worker(settings.peaks_device, settings.threads, settings.tf32);
  settings.tuning_db.clear();  // rank 0 alone opens the store
  add_peaks(environment, *settings.peaks);
  cluster.send(0, {{"cases", cases_digest(cases)},
                   {"environment", to_json(environment)},
                   {"cores", bound_cores()},
                   {"gpu", gpu}});
  HostWorker worker(settings);
  for (;;) {
    if (const auto message = cluster.take(0)) {
      if (message->contains("bye")) return cancelled() ? 130 : 0;
      worker.send(cases.at(message->at("case").get<size_t>()));
    }
    // Rank 0 is lost, and this rank was asked to end.
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
