#include "data/machine/peaks.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "data/bytes/part_file.h"
#include "data/machine/gpu.h"
#include "data/machine/load.h"
#include "data/tensors.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::json;

constexpr int kSchema = 4;  // also rises when the way of measuring changes
/// Peaks measured while other programs ran are too low: they are used for ten minutes only.
constexpr int64_t kDisturbedLastsS = 600;

Json read_all(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Json::object();
  Json all = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  return all.is_object() && all.contains("schema") && all["schema"] == kSchema ? all
                                                                               : Json::object();
}

std::string key_of(c10::Device device, int threads) {
  return fmt::format("{} · {} cores · {} · {} threads", processor_name(), usable_cores(),
                     device_key(device), threads > 0 ? threads : at::get_num_threads());
}

std::map<std::string, Peaks>& in_use() {
  static std::map<std::string, Peaks> all;
  return all;
}

bool still_serves(const Json& kept) {
  return !kept.value("disturbed", false) ||
         std::time(nullptr) - kept.value("measured_s", int64_t{0}) < kDisturbedLastsS;
}

/// Whether the file could be written.
bool write_all(const Json& all) {
  if (cache_folder().empty()) return false;
  places().folder(cache_folder());
  try {
    write_file(peaks_file(), all.dump(1) + "\n");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Json peaks_json(const Peaks& peaks) {
  Json flops = Json::object(), bandwidth = Json::array();
  for (const auto& [dtype, value] : peaks.flops_per_s) flops[short_name(dtype)] = value;
  for (const Peaks::Bandwidth& level : peaks.bandwidth)
    bandwidth.push_back({{"working_set", level.working_set}, {"bytes_per_s", level.bytes_per_s}});
  return {{"threads", peaks.threads},
          {"flops_per_s", flops},
          {"bandwidth", bandwidth},
          {"step_ns", peaks.step_ns}};
}

Peaks peaks_of(const Json& kept) {
  Peaks peaks;
  peaks.threads = kept.at("threads");
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    peaks.flops_per_s[dtype] = kept.at("flops_per_s").at(short_name(dtype));
  for (const Json& level : kept.at("bandwidth"))
    peaks.bandwidth.push_back({level.at("working_set"), level.at("bytes_per_s")});
  peaks.step_ns = kept.at("step_ns");
  return peaks;
}

std::string cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return std::string(cache) + "/workbench";
  if (const char* home = std::getenv("HOME"); home && *home)
    return std::string(home) + "/.cache/workbench";
  return "";
}

std::string peaks_file() { return cache_folder() + "/peaks.json"; }

void add_peaks(Environment& environment, const Peaks& peaks) {
  for (const auto& [dtype, value] : peaks.flops_per_s)
    environment.peak_flops_per_s[short_name(dtype)] = value;
  environment.peak_bytes_per_s = peaks.memory_bytes_per_s();
  for (const Peaks::Bandwidth& level : peaks.bandwidth)
    environment.bandwidth.push_back({level.working_set, level.bytes_per_s});
  environment.step_ns = peaks.step_ns;
}

void use_peaks(c10::Device device, int threads, const Peaks& peaks) {
  in_use()[key_of(device, threads)] = peaks;
}

Peaks machine_peaks(c10::Device device, int threads, bool again) {
  if (threads <= 0) threads = at::get_num_threads();
  const std::string key = key_of(device, threads);
  if (const auto used = in_use().find(key); used != in_use().end() && !again) return used->second;
  Json all = cache_folder().empty() ? Json::object() : read_all(peaks_file());
  if (!again && all.contains(key)) try {
      if (still_serves(all[key])) return peaks_of(all[key]);
    } catch (const Json::exception&) {
      // The entry has another form: measures again and replaces it.
    }
  const LoadWatch watch;
  const Peaks peaks = measure_peaks(device, threads);
  const bool disturbed = watch.other_load() > kDisturbedShare;
  all["schema"] = kSchema;
  all[key] = peaks_json(peaks);
  all[key]["disturbed"] = disturbed;
  all[key]["measured_s"] = static_cast<int64_t>(std::time(nullptr));
  if (!write_all(all) || in_use().count(key)) in_use()[key] = peaks;
  return peaks;
}

}  // namespace wide
