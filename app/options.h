#pragma once
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <map>
#include <string>
#include <vector>

#include "engine/network.h"
#include "engine/widen/target.h"

// Parses the texts of options, or throws Error that names the option.
namespace wide {

/// "4,8,16": positive, at most `kMostModels`, ascending, each once.
std::vector<int64_t> parse_ns(const std::string& text);

/// {"conv2d=grouped", "linear=vmap"}: names are checked against the registry. "*" means all;
/// each name once.
std::map<std::string, std::string> parse_strategies(const std::vector<std::string>& texts);

/// "loop,vmap": each is the name of a baseline.
std::vector<std::string> parse_baselines(const std::string& text);

/// "cpu", "cuda", "cuda:1"; Error with exit code 6 when there is no such device.
c10::Device parse_device(const std::string& text);

/// Replaces "auto" by the CPU and the GPU, if there is one; removes duplicates.
std::vector<std::string> expand_devices(const std::vector<std::string>& names);

/// f32, f64, bf16, f16.
at::ScalarType parse_float_dtype(const std::string& text);

/// Sets LibTorch's number of threads, unless `threads` is 0. Returns the number in use.
int set_threads(int threads);

/// A validator for CLI11: "" if `text` is a positive number, else what is wrong with it.
std::string not_positive(const std::string& text);
/// The same, but 0 is allowed.
std::string negative(const std::string& text);

/// The same for the seed of random numbers, which has 64 bits.
std::string not_a_seed(const std::string& text);

/// An input as `--input` gives it: `name=2x3x64x64:f32` or `ids=2x12:i64[0,1000)`.
struct InputText {
  TensorSpec spec;
  int64_t low = 0;  // added to random integers
};
InputText parse_input(const std::string& text);

}  // namespace wide
