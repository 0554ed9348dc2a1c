#include "app/trial/peer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/trial/peer_script.h"
#include "data/escape.h"
#include "data/machine/ending.h"
#include "data/machine/gpu.h"
#include "data/text.h"
#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/error.h"
#include "engine/machine/caches.h"
#include "engine/model/portable.h"
#include "engine/widen/derivative.h"

namespace wide {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "workbench-peer-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path = name;
  }
  ~Folder() {
    std::error_code error;
    if (!path.empty()) fs::remove_all(path, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

Tensors on_cpu(const Tensors& tensors) {
  Tensors here;
  for (const Tensor& t : tensors) here.push_back(t.cpu().contiguous());
  return here;
}

void write_tensors(const fs::path& folder, const Tensors& tensors) {
  for (size_t k = 0; k < tensors.size(); ++k) {
    const Tensor& t = tensors[k];
    std::ofstream(folder / std::to_string(k), std::ios::binary)
        .write(static_cast<const char*>(t.const_data_ptr()),
               static_cast<std::streamsize>(t.nbytes()));
  }
}

/// Tells the script the positions of a derivative network's tensors.
void describe_phase(const Network& network, Json* json) {
  if (!network.derivative) return;
  const DerivativeLayout at = network.derivative->layout();
  json->update({{"wanted", at.of},
                {"real_outputs", at.outputs},
                {"cotangents", at.cotangents},
                {"rate", at.rate},
                {"state", at.state}});
  if (at.optimizer == nullptr) return;
  for (const OptimizerState& state : at.optimizer->state)
    if (state.only_with.empty()) (*json)["moments"].push_back(state.name);
  (*json)["optimizer"] = !at.optimizer->python.empty();
  for (const Hyperparameter& h : at.optimizer->hyperparameters) (*json)["hyper"][h.name] = h.value;
}

void write_case(const fs::path& folder, const PeerCase& of, const PeerSettings& settings) {
  const Derivative* derivative = of.network.derivative.get();
  const Network& inner = derivative != nullptr ? derivative->inner() : of.network;
  const c10::Device device = of.ensemble.device();
  Ensemble here = of.ensemble;
  here.tensors = on_cpu(of.ensemble.tensors);
  write_tensors(folder, here.tensors);
  here.tensors.resize(inner.tensors.size());
  here.shared.resize(inner.tensors.size());
  // A program recorded on a GPU calls operators that a file cannot hold: record it on the CPU
  // again.
  std::optional<Program> again;
  if (!device.is_cpu()) again = record_single(inner, here);
  const Program& single = again ? *again : derivative != nullptr ? derivative->single() : of.single;
  export_format("one.pt2").write(portable_single(inner, single, here.model(0)), folder / "one.pt2");
  Json tensors = Json::array();
  for (size_t k = 0; k < of.network.tensors.size(); ++k) {
    const Tensor& t = of.ensemble.tensors[k];
    tensors.push_back(
        {{"name", of.network.tensors[k].name},
         {"shared", bool(of.ensemble.shared[k])},
         {"sizes", t.sizes().slice(of.ensemble.shared[k] ? 0 : 1).vec()},
         {"dtype", c10::toString(t.scalar_type())},
         {"input", k < inner.tensors.size() && inner.tensors[k].role == Role::input}});
  }
  Json json{{"tensors", tensors},
            {"inner", inner.tensors.size()},
            {"outputs", single.outputs.size()},
            {"n", of.n},
            {"phase", of.phase},
            {"device", device.str()},
            {"graphs", !device.is_cpu() && of.mode == Mode::reduce_overhead},
            {"tf32", tf32_allowed()},
            {"wanted", Json::array()},
            {"real_outputs", Json::array()},
            {"cotangents", Json::array()},
            {"moments", Json::array()},
            {"optimizer", false},  // whether the script can compute the optimiser's step
            {"hyper", Json::object()},
            {"budget_s", settings.budget_s},
            {"min_samples", settings.min_samples},
            {"cache_bytes", last_cache_bytes(at::get_num_threads())},
            {"threads", settings.threads > 0 ? settings.threads : at::get_num_threads()}};
  describe_phase(of.network, &json);
  std::ofstream(folder / "case") << json;
  std::ofstream(folder / "peer.py") << kPeerScript;
  if (derivative != nullptr && derivative->layout().optimizer != nullptr)
    std::ofstream(folder / "optimizer.py") << derivative->layout().optimizer->python;
}

/// Calls `take` for each answer of the script; returns the last other line that it printed.
std::string answers_of(const std::string& command, const std::function<void(const Json&)>& take) {
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return "no process could be started";
  std::string line, last;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) {
    line += buffer;
    if (line.back() != '\n') continue;
    if (line.rfind("PEER ", 0) == 0)
      take(Json::parse(line.substr(5), nullptr, false));
    else if (std::string said = last_line(line); !said.empty())
      last = std::move(said);
    line.clear();
  }
  pclose(pipe);
  return last.empty() ? "it said nothing" : last;
}

/// The results that the script wrote, as tensors; missing fields are a bug of the script.
Tensors results_of(const Json& answer, const fs::path& folder, const Tensors& expected) {
  static const std::map<std::string, at::ScalarType> dtypes{
      {"float32", at::kFloat},     {"float64", at::kDouble}, {"float16", at::kHalf},
      {"bfloat16", at::kBFloat16}, {"int64", at::kLong},     {"int32", at::kInt},
      {"bool", at::kBool},         {"uint8", at::kByte},     {"int8", at::kChar},
      {"int16", at::kShort}};
  Tensors got;
  for (size_t k = 0; k < answer.at("results").size() && k < expected.size(); ++k) {
    const Json& result = answer["results"][k];
    const Tensor t = at::empty(result.at(0).get<std::vector<int64_t>>(),
                               dtypes.at(result.at(1).get<std::string>()));
    const std::string name = fmt::format("{}.{}", answer.at("name").get<std::string>(), k);
    std::ifstream(folder / name, std::ios::binary)
        .read(static_cast<char*>(t.mutable_data_ptr()), static_cast<std::streamsize>(t.nbytes()));
    got.push_back(t);
  }
  return got;
}

constexpr double kTolerance = 1e-2;  // as for every baseline

}  // namespace

PeerResult ask_peer(const PeerCase& of, const PeerSettings& settings,
                    const std::function<void()>& alive) {
  PeerResult result;
  const auto absent = [&](const char* name, const std::string& why) {
    result.absent.push_back(fmt::format("{} is not there: [{}] {}", name,
                                        printable(settings.python), printable(why, 200)));
  };
  const auto nothing = [&](const std::string& why) {
    absent(kPeer, why);
    return result;
  };
  if (!settings.lacks.empty()) return nothing(settings.lacks);
  if (of.network.random)
    return nothing("a network that draws random numbers has no results to check it by");
  const Folder folder;
  if (folder.path.empty()) return nothing("no temporary folder could be made");
  try {
    write_case(folder.path, of, settings);
  } catch (const Error& e) {
    return nothing(e.what());
  }
  bool done = false;
  const auto take = [&](const Json& answer) {
    alive();
    if (!answer.is_object() || answer.empty()) return;
    done |= answer.contains("done");
    if (!answer.contains("name")) {
      if (answer.contains("absent")) absent(kPeer, answer["absent"]), done = true;
      return;
    }
    const char* name = answer["name"] == "loop" ? kPeer : kBatchedPeer;
    if (answer.contains("absent")) return absent(name, answer["absent"]);
    const Tensors got = results_of(answer, folder.path, of.expected);
    const Tensors wanted = on_cpu({of.expected.begin(), of.expected.begin() + std::ssize(got)});
    const double error = got.empty() ? INFINITY : max_relative_error(got, wanted);
    if (!(error <= kTolerance))
      return absent(name, fmt::format("its relative error is {}", error_text(error)));
    Timing& timing = result.timings.emplace_back();
    timing.name = name;
    timing.kind = "baseline";
    answer.at("samples_ns").get_to(timing.samples_ns);
    answer.at("first_call_ns").get_to(timing.first_call_ns);
    timing.calls_per_sample = 1;
    summarise(timing);
  };
  const std::string last = answers_of(
      fmt::format("{} {} {}", shell_word(settings.python),
                  shell_word((folder.path / "peer.py").string()), shell_word(folder.path.string())),
      take);
  if (!done) absent(kPeer, last);
  return result;
}

std::string peer_lacks(const std::string& python) {
  constexpr const char* kProbe =
      "import torch; torch.compile(lambda x: (x + 1).sin())(torch.ones(3)); print('PEER "
      "{\"done\":1}')";
  bool works = false;
  const std::string last =
      answers_of(fmt::format("{} -c {}", shell_word(python), shell_word(kProbe)),
                 [&](const Json& answer) { works |= answer.is_object(); });
  return works ? "" : last;
}

std::string python_of_torch() {
  const char* python = std::getenv("WORKBENCH_PYTHON");
  return python != nullptr && *python != 0 ? python : "python3";
}

}  // namespace wide
