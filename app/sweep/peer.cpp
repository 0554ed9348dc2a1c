#include "app/sweep/peer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/escape.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/check/check.h"
#include "engine/lower/caches.h"
#include "engine/widen/derivative.h"

namespace wide {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The targets once more in Python, as their users write them there: a function of the tensors `t`
/// by name and the axes `a`. What follows times them.
constexpr const char* kScript = R"PY(
import json, math, os, sys, time
folder = sys.argv[1]
def answer(**what):
    print("PEER " + json.dumps(what), flush=True)
    sys.exit(0)
try:
    import torch
    from torch.nn import functional as F
except ImportError as error:
    answer(absent=str(error))
with open(os.path.join(folder, "case"), encoding="utf-8") as file:
    case = json.load(file)
a = case["axes"]

def linear(x, t, name):
    return F.linear(x, t[name + ".weight"], t.get(name + ".bias"))
def attention(q, k, v, causal=False):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    return torch.softmax(scores, -1) @ v
def norm(x, t, name):
    d = x - x.mean(-1, keepdim=True)
    return d / torch.sqrt(d.pow(2).mean(-1, keepdim=True) + 1e-5) * t[name + ".weight"] + t[name + ".bias"]
def apart(x, h):
    return x.unflatten(-1, (h, -1)).transpose(1, 2)
def mha(x, t):
    q, k, v = (apart(linear(x, t, n), a["h"]) for n in "qkv")
    return linear(attention(q, k, v).transpose(1, 2).flatten(-2), t, "out")

def naive_attention(t):
    return attention(t["q"], t["k"], t["v"], bool(a.get("causal", 0)))
def naive_mha(t):
    return mha(t["x"], t)
def naive_block(t):
    x = t["x"] + mha(norm(t["x"], t, "n1"), t)
    return x + linear(F.gelu(linear(norm(x, t, "n2"), t, "up")), t, "down")
def naive_layernorm(t):
    return norm(t["x"], t, "norm")
def naive_linears(t):
    return torch.cat([linear(t["x"], t, n) for n in "qkv"], -1)
def language_model(t):
    x = F.embedding(t["ids"], t["embedding.weight"])
    h, d = case["heads"], x.shape[-1]
    depth = d // h
    rate = 10000.0 ** (-torch.arange(0, depth, 2) / depth)
    angles = torch.arange(x.shape[1])[:, None] * rate
    cos, sin = angles.cos(), angles.sin()
    def turned(y):
        p, q = y.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([p * cos - q * sin, p * sin + q * cos], -1).flatten(-2)
    rms = lambda y, name: F.rms_norm(y, (d,), t[name + ".weight"], 1e-5)
    for i in range(case["blocks"]):
        at = f"layers.{i}."
        y = rms(x, at + "norm1")
        q, k, v = (apart(linear(y, t, at + n), h) for n in "qkv")
        x = x + linear(attention(turned(q), turned(k), v, True).transpose(1, 2).flatten(-2), t, at + "out")
        y = rms(x, at + "norm2")
        x = x + linear(F.silu(linear(y, t, at + "gate")) * linear(y, t, at + "up"), t, at + "down")
    return F.cross_entropy(linear(rms(x, "norm"), t, "head").flatten(0, 1), t["next"].flatten())

torch.set_num_threads(case["threads"])
models = []
tensors = [torch.from_file(os.path.join(folder, str(k)), size=math.prod(s) * case["n"], dtype=getattr(torch, d)).reshape(case["n"], *s)
           for k, (_, s, d, _) in enumerate(case["tensors"])]
for i in range(case["n"]):
    models.append({name: tensors[k][i].clone() for k, (name, *_) in enumerate(case["tensors"])})
phase = case["phase"]
wanted = [name for name, _, _, differentiable in case["tensors"] if differentiable]
function = torch.compile(globals()[case["target"]])
optimizers = []
if phase != "forward":
    for t in models:
        for name in wanted:
            t[name].requires_grad_()
if phase == "step":
    for t in models:
        own = torch.optim.AdamW([t[n] for n in wanted], lr=float(t["learning_rate"]), fused=True)
        for n in wanted:
            own.state[t[n]] = {"step": torch.tensor(1e5), "exp_avg": t["exp_avg." + n], "exp_avg_sq": t["exp_avg_sq." + n]}
        optimizers.append(own)

def call():
    results = []
    for i, t in enumerate(models):
        if phase == "forward":
            with torch.no_grad():
                results.append([function(t)])
            continue
        y = function(t)
        gradients = torch.autograd.grad(y, [t[n] for n in wanted], t["cotangent.0"].reshape(y.shape))
        if phase == "step":
            for n, g in zip(wanted, gradients):
                t[n].grad = g
            optimizers[i].step()
            results.append([t[n].detach() for n in wanted])
        else:
            results.append(list(gradients))
    return results

try:
    begun = time.perf_counter_ns()
    first = call()
    first_ns = time.perf_counter_ns() - begun
except Exception as error:
    answer(absent=(str(error).strip().splitlines() or [type(error).__name__])[-1][:200])
for k in range(len(first[0])):
    torch.stack([r[k].detach() for r in first]).contiguous().numpy().tofile(os.path.join(folder, f"out.{k}"))
sizes = [list(torch.stack([r[k].detach() for r in first]).shape) for k in range(len(first[0]))]
# As the others are timed: what ran before has filled the caches, then a call refills them.
others, end, short = torch.zeros(case["cache_bytes"] // 4), time.monotonic() + case["budget_s"], 20e6
samples = []
while len(samples) < case["min_samples"] or (time.monotonic() < end and len(samples) < 1000):
    if not samples or samples[-1] < short:
        others += 1
        call()
    begun = time.perf_counter_ns()
    call()
    samples.append(time.perf_counter_ns() - begun)
answer(samples_ns=samples, first_call_ns=first_ns, sizes=sizes, torch=torch.__version__)
)PY";

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

void write_case(const fs::path& folder, const PlannedCase& planned, const SweepSettings& settings,
                const Network& network, const Ensemble& ensemble) {
  Json axes = Json::object(), tensors = Json::array();
  for (const auto& [axis, size] : planned.shape.axes()) axes[axis] = size;
  int64_t blocks = 0, width = 0, depth_heads = planned.shape.get("h", 0);
  const size_t inner =
      network.derivative ? network.derivative->inner().tensors.size() : network.tensors.size();
  for (size_t k = 0; k < network.tensors.size(); ++k) {
    const TensorSpec& spec = network.tensors[k];
    const Tensor t = ensemble.tensors[k].contiguous();
    std::ofstream(folder / std::to_string(k), std::ios::binary)
        .write(static_cast<const char*>(t.const_data_ptr()),
               static_cast<std::streamsize>(t.nbytes()));
    const bool real = k < inner && t.is_floating_point();
    const bool parameter = network.derivative && k < inner &&
                           network.derivative->inner().tensors[k].role == Role::parameter;
    tensors.push_back({spec.name, spec.sizes, t.is_floating_point() ? "float32" : "int64",
                       planned.phase == "step" ? real && parameter : real});
    // A step has its moments under such names too.
    if (k < inner && spec.name.ends_with(".norm1.weight")) ++blocks, width = spec.sizes[0];
  }
  // Sizes that are known by a number alone have heads of 64 channels, but the last of 80.
  if (depth_heads == 0 && width > 0) depth_heads = width == 2560 ? 32 : width / 64;
  std::ofstream(folder / "case") << Json{
      {"target", planned.target->name},
      {"axes", axes},
      {"tensors", tensors},
      {"n", planned.n},
      {"phase", planned.phase},
      {"blocks", blocks},
      {"heads", depth_heads},
      {"budget_s", settings.budget_s},
      {"min_samples", settings.min_samples},
      {"cache_bytes", last_cache_bytes(at::get_num_threads())},
      {"threads", settings.threads > 0 ? settings.threads : at::get_num_threads()}};
  std::ofstream(folder / "peer.py") << kScript;
}

/// The last line of the script that is its answer.
Json answer_of(const std::string& python, const fs::path& folder) {
  const std::string command = shell_word(python) + " " + shell_word((folder / "peer.py").string()) +
                              " " + shell_word(folder.string()) + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {{"absent", "no process could be started"}};
  std::string line, last;
  Json answer;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) {
    line += buffer;
    if (line.back() != '\n') continue;
    if (line.rfind("PEER ", 0) == 0) answer = Json::parse(line.substr(5), nullptr, false);
    last = line.substr(0, line.size() - 1);
    line.clear();
  }
  pclose(pipe);
  return answer.is_object() ? answer : Json{{"absent", last.empty() ? "it said nothing" : last}};
}

}  // namespace

bool peer_knows(const std::string& target) {
  return target == "language_model" || target.rfind("naive_", 0) == 0;
}

PeerResult ask_peer(const PlannedCase& planned, const SweepSettings& settings,
                    const Network& network, const Ensemble& ensemble, const Tensors& expected) {
  const auto absent = [&](const std::string& why) {
    return PeerResult{{},
                      fmt::format("{} is not there: [{}] {}", kPeer, printable(settings.peer),
                                  printable(why, 200))};
  };
  if (!peer_knows(planned.target->name) || planned.dtype != at::kFloat)
    return absent("float32 rows of the suites alone are known to it");
  const Folder folder;
  if (folder.path.empty()) return absent("no temporary folder could be made");
  write_case(folder.path, planned, settings, network, ensemble);
  const Json answer = answer_of(settings.peer, folder.path);
  if (answer.contains("absent")) return absent(answer["absent"].get<std::string>());
  Tensors got;
  for (size_t k = 0; k < answer.at("sizes").size() && k < expected.size(); ++k) {
    const Tensor t = at::empty(answer["sizes"][k].get<std::vector<int64_t>>(), at::kFloat);
    std::ifstream(folder.path / fmt::format("out.{}", k), std::ios::binary)
        .read(static_cast<char*>(t.mutable_data_ptr()), static_cast<std::streamsize>(t.nbytes()));
    got.push_back(t);
  }
  const Tensors wanted(expected.begin(), expected.begin() + std::ssize(got));
  const double error = max_relative_error(got, wanted);
  if (!(error <= 1e-2)) return absent(fmt::format("its relative error is {}", error_text(error)));
  Timing timing;
  timing.name = kPeer;
  timing.kind = "baseline";
  answer.at("samples_ns").get_to(timing.samples_ns);
  answer.at("first_call_ns").get_to(timing.first_call_ns);
  timing.calls_per_sample = 1;
  summarise(timing);
  return {timing, ""};
}

}  // namespace wide
