#pragma once
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <map>
#include <string>
#include <vector>

#include "engine/network.h"
#include "engine/widen/target.h"

// What options mean: text to values, or an Error naming the option.
namespace wide {

/// "4,8,16": positive, ascending, each once.
std::vector<int64_t> parse_ns(const std::string& text);

/// {"conv2d=grouped", "linear=vmap"}: names are checked against the registry. "*" means all.
std::map<std::string, std::string> parse_strategies(const std::vector<std::string>& texts);

/// "cpu", "cuda", "cuda:1"; Error with exit code 6 when there is no such device.
c10::Device parse_device(const std::string& text);

/// With "auto" replaced by the CPU and, where there is one, the GPU; each once.
std::vector<std::string> expand_devices(const std::vector<std::string>& names);

/// f32, f64, bf16, f16.
at::ScalarType parse_float_dtype(const std::string& text);

/// Sets the number of threads LibTorch uses; 0 leaves it. Returns the number in force.
int set_threads(int threads);

/// For CLI11: what is wrong with an option's text that must be a positive number, or "".
std::string not_positive(const std::string& text);
/// The same for a number that may be 0 too.
std::string negative(const std::string& text);

/// An input given by `--input name=2x3x64x64:f32` or `ids=2x12:i64[0,1000)`.
struct InputText {
  TensorSpec spec;
  int64_t low = 0;  // added to random integers
};
InputText parse_input(const std::string& text);

}  // namespace wide
