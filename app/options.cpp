#include "app/options.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>

#include "app/sweep/cases.h"
#include "data/machine/environment.h"
#include "data/preset.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/device.h"
#include "engine/error.h"

namespace wide {
std::vector<int64_t> parse_ns(const std::string& text) {
  std::set<int64_t> ns;
  for (const std::string& part : split(text)) {
    const int64_t n = whole_number(part).value_or(0);
    if (n < 1)
      fail("[--n] models: got {}, expected positive numbers such as 4,8,16; try -n 4",
           printable(part));
    if (n > kMostModels)
      fail("[--n] models: got {}, expected at most {}; try -n 4", n, kMostModels);
    ns.insert(n);
  }
  if (ns.empty()) fail("[--n] models: got nothing, expected numbers such as 4,8,16; try -n 4");
  return {ns.begin(), ns.end()};
}

std::map<std::string, std::string> parse_strategies(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> out;
  std::set<std::string> given;  // by name, not as a part of another
  for (const std::string& text : texts)
    for (const std::string& part : split(text)) {
      const size_t at = part.find('=');
      if (at == std::string::npos || at == 0 || at + 1 == part.size())
        fail("[--strategy] strategy: got {}, expected PRIMITIVE=STRATEGY; try conv2d=grouped",
             printable(part));
      const std::string primitive = part.substr(0, at), name = part.substr(at + 1);
      if (!given.insert(primitive).second)
        fail("[--strategy] strategy: got {} twice, expected it once; try one of them",
             printable(primitive));
      const bool engine_own = name == "vmap" || name == "per_model";
      if (primitive == "*") {
        if (!engine_own)
          fail("[--strategy] strategy of *: got {}, expected vmap or per_model; try *=vmap",
               printable(name));
      } else {
        const Target& target = find_target(primitive);
        const std::vector<std::string> known = strategy_names(target);
        if (std::ranges::find(known, name) == known.end())
          fail("[--strategy] strategy of {}: got {}, expected one of {}; try {}={}", primitive,
               printable(name), listing(known, 99), primitive, known.front());
        if (const auto parts = target.parts.find(name); parts != target.parts.end())
          for (const auto& [inner, way] : parts->second) out[inner] = way;
      }
      out[primitive] = name;
    }
  return out;
}

std::vector<std::string> parse_baselines(const std::string& text) {
  const std::vector<std::string>& known = baseline_names();
  std::vector<std::string> names = split(text);
  if (names.empty()) names = {text};  // refused as a name
  for (const std::string& name : names)
    if (std::ranges::find(known, name) == known.end())
      fail("[--baselines] baseline: got {}, expected one of {}; try --baselines loop",
           printable(name), listing(known, 99));
  return names;
}

namespace {

std::optional<double> finite_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// CUDA, or another device type that has a runtime in this program.
std::optional<c10::DeviceType> device_kind(const std::string& name) {
  if (name == "cuda") return c10::kCUDA;
  for (int k = 0; k < c10::COMPILE_TIME_MAX_DEVICE_TYPES; ++k) {
    const auto type = static_cast<c10::DeviceType>(k);
    if (type != c10::kCPU && device_runtime(type) &&
        c10::DeviceTypeName(type, /*lower_case=*/true) == name)
      return type;
  }
  return std::nullopt;
}

}  // namespace

c10::Device parse_device(const std::string& text) {
  if (text == "cpu") return c10::kCPU;
  const size_t colon = std::min(text.find(':'), text.size());
  const int64_t index =
      colon == text.size() ? 0 : whole_number(text.substr(colon + 1)).value_or(-1);
  const std::optional<c10::DeviceType> kind = device_kind(text.substr(0, colon));
  if (!kind || index < 0 || index >= 128)
    fail("[--device] device: got {}, expected cpu, cuda or cuda:0; try --device cpu",
         printable(text));
  const c10::Device device(*kind, static_cast<c10::DeviceIndex>(index));
  if (const auto why = unavailable(device)) throw Error(*why, 6);
  return device;
}

std::vector<std::string> expand_devices(const std::vector<std::string>& names) {
  std::vector<std::string> devices;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(devices, name) == devices.end()) devices.push_back(name);
  };
  for (const std::string& name : names) {
    add(name == "auto" ? "cpu" : name);
    if (name == "auto" && !unavailable(c10::kCUDA)) add("cuda");
  }
  return devices;
}

at::ScalarType parse_float_dtype(const std::string& text) {
  const std::string name = text.rfind("torch.", 0) == 0 ? text.substr(6) : text;
  for (const auto& [dtype, of_pytorch] :
       {std::pair(at::kFloat, "float32"), std::pair(at::kDouble, "float64"),
        std::pair(at::kHalf, "float16"), std::pair(at::kBFloat16, "bfloat16")})
    if (name == of_pytorch || name == short_name(dtype)) return dtype;
  fail("[--dtype] dtype: got {}, expected f32, f64, f16 or bf16; try --dtype f32", printable(text));
}

int set_threads(int threads) {
  if (threads < 0)
    fail("[--threads] threads: got {}, expected 1 or more; try --threads 1", threads);
  const int most = std::max(64, 4 * usable_cores());  // each has memory of its own
  if (threads > most)
    fail("[--threads] threads: got {}, expected at most {}; try --threads {}", threads, most,
         usable_cores());
  if (threads > 0) at::set_num_threads(threads);
  return at::get_num_threads();
}

std::string not_positive(const std::string& text) {
  return finite_number(text).value_or(0) > 0
             ? ""
             : "got " + printable(text) + ", expected a positive number";
}

std::string negative(const std::string& text) {
  return finite_number(text).value_or(-1) >= 0
             ? ""
             : "got " + printable(text) + ", expected a number from 0 on";
}

std::string not_a_seed(const std::string& text) {
  std::string why = negative(text);
  errno = 0;
  std::strtoull(text.c_str(), nullptr, 0);
  if (why.empty() && errno == ERANGE)
    why = fmt::format("got {}, expected a number up to {}", printable(text),
                      std::numeric_limits<uint64_t>::max());
  return why;
}

InputText parse_input(const std::string& text) {
  const auto refuse = [&]() {
    fail(
        "[--input] input: got {}, expected NAME=SIZES:DTYPE; try x=2x3x64x64:f32 or "
        "ids=2x12:i64[0,1000)",
        printable(text));
  };
  InputText input;
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) refuse();
  input.spec.name = text.substr(0, equals);
  std::string sizes = text.substr(equals + 1), dtype = "f32", range;
  if (const size_t colon = sizes.find(':'); colon != std::string::npos) {
    dtype = sizes.substr(colon + 1);
    sizes.resize(colon);
  }
  if (const size_t bracket = dtype.find('['); bracket != std::string::npos) {
    range = dtype.substr(bracket);
    dtype.resize(bracket);
  }
  for (const std::string& part : split(sizes, 'x')) {
    const int64_t size = whole_number(part).value_or(-1);
    if (size < 0) refuse();
    input.spec.sizes.push_back(size);
  }
  const auto parsed = parse_dtype(dtype);
  if (!parsed) refuse();
  const bool floating = c10::isFloatingType(*parsed);
  input.spec.dtype = floating ? at::kFloat : *parsed;
  input.spec.fill = floating ? Fill::normal : Fill::zeros;
  if (!range.empty()) {
    const size_t comma = range.find(',');
    if (floating || range.back() != ')' || comma == std::string::npos) refuse();
    const auto low = whole_number(range.substr(1, comma - 1));
    const auto high = whole_number(range.substr(comma + 1, range.size() - comma - 2));
    if (!low || !high || *high <= *low) refuse();
    input.low = *low;
    input.spec.fill = Fill::integers;
    input.spec.scale = static_cast<double>(*high - *low);
  }
  return input;
}

}  // namespace wide
