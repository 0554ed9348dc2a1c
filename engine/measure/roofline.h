#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/measure/measure.h"
#include "engine/measure/peaks.h"
#include "engine/program.h"

namespace wide {

/// What one call for all N models has to do at least.
struct WorkLoad {
  double flops = 0;  // multiplications and additions
  double bytes = 0;  // inputs and weights read once, results written once
};

/// Counted from Program(1): 2MNK of matrix products and convolutions (and of their gradients),
/// one for every element of any other result. `shared`, by `program.bound`: read once for all.
WorkLoad count_work(const Program& single, int64_t n, const std::vector<bool>& shared);

/// What the operators of a program do one after the other, views and what is done once left out.
struct Traffic {
  int64_t operators = 0;
  double flops = 0;
  double bytes = 0;   // read and written by each
  double passes = 0;  // `bytes` by those of all inputs, weights and outputs
};
Traffic count_traffic(const Program& program);

/// The least time of `program`'s main nodes one after the other: each the longer of its FLOPs and
/// its bytes at the peaks (in float32), and a step.
double estimate_ns(const Program& program, const Peaks& peaks);

/// The products and sums of one call of an operator that is none of ATen's; without it as many as
/// it has results.
using CountFlops = std::function<double(const Program& program, const Node& node)>;
/// Registers at static initialisation; `op` without its overload. `flops` are those of the
/// definition; `computed` those of a kernel that gets by with fewer, or does more. Returns true.
bool add_flops(const std::string& op, CountFlops flops, CountFlops computed = {});

struct StepWork {
  double flops = 0;           // by the definition
  double computed_flops = 0;  // what the kernel computes, where it says so; else 0
  double bytes = 0;           // read and written
};
StepWork work_of(const Program& program, const Node& node);

/// Fills flops, bytes, their shares of the peaks and `bound`. The least time that the FLOPs
/// (`compute`), the bytes (`memory`) and the timing's steps (`launch`) would take at the peaks is
/// held against the median: the largest of the three is the word when it makes up at least 40 % of
/// the median, else `unknown`. `parallel_steps`: how many steps run side by side.
void judge(Timing& timing, const WorkLoad& load, const Peaks& peaks, at::ScalarType dtype,
           double parallel_steps = 1);

}  // namespace wide
