#pragma once
#include <memory>
#include <set>
#include <string>

#include "engine/lower/tune/tuning.h"
#include "engine/widen/widen.h"

namespace wide {

/// Execution modes under the names of torch.compile:
/// eager            operator by operator through LibTorch, as an exported program would run:
///                  strategies of ATen operators only; only passes that clean up
/// default          planned ahead of its calls, with kernels that were compiled with this project
/// reduce-overhead  as default, captured as one CUDA graph
/// max-autotune     as default, after measuring whole programs with every strategy; remembered
enum class Mode { eager, default_, reduce_overhead, max_autotune };
inline constexpr Mode kModes[] = {Mode::eager, Mode::default_, Mode::reduce_overhead,
                                  Mode::max_autotune};
const char* to_string(Mode mode);
/// Throws Error for an unknown name.
Mode parse_mode(const std::string& name);

struct CompileOptions {
  Mode mode = Mode::default_;
  int threads = 0;  // 0: at::get_num_threads()
  int ranges = 0;   // of models; 0: measured
  WidenOptions widen;
  std::set<std::string> passes_off;  // by name, of any stage
  bool verify = false;               // verify the program after every pass
  bool keep_text = false;
  bool tune = true;  // measure strategies, layouts and the number of ranges; false: guess
  std::shared_ptr<const SizeChoices> like = {};  // choices for another input size, to be reused
  double autotune_s = 5;  // mode max-autotune: starts nothing new after these seconds
  /// A strategy whose call takes longer than this is timed with all models at once and with one at
  /// a time, but not with numbers of ranges between; 0: no such limit.
  double far_off_ns = 0;
};

}  // namespace wide
