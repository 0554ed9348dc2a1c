#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/measure/measure.h"
#include "engine/measure/peaks.h"
#include "engine/program.h"

namespace wide {

/// The least work of one call for all N models.
struct WorkLoad {
  double flops = 0;  // multiplications and additions
  double bytes = 0;  // inputs and weights read once, results written once
};

/// Counted from Program(1): 2MNK of matrix products and convolutions (and of their gradients), one
/// for every element that a reduction or a pooling window reads, and one for every element of any
/// other result. `shared`, by `program.bound`: read once for all.
WorkLoad count_work(const Program& single, int64_t n, const std::vector<bool>& shared);

/// Work of a program's operators one by one, without views and the prologue.
struct Traffic {
  int64_t operators = 0;
  double flops = 0;
  double bytes = 0;   // read and written by each
  double passes = 0;  // `bytes` divided by the bytes of all inputs, weights and outputs
};
Traffic count_traffic(const Program& program);

/// Estimates the time of `program` without its prologue, nodes one after the other. A node takes
/// the time of its FLOPs or of its bytes at the peaks (in float32), whichever is longer, and the
/// cost of a call.
double estimate_ns(const Program& program, const Peaks& peaks);

/// Counts the FLOPs of one call of an operator. Without such a function a reduction (by its tag)
/// counts one for each element that it reads, and any other operator one for each of its results.
using CountFlops = std::function<double(const Program& program, const Node& node)>;
/// Registers at static initialisation; `op` without its overload. `flops` are those of the
/// definition; `computed` those that the kernel executes, if they differ. Returns true.
bool add_flops(const std::string& op, CountFlops flops, CountFlops computed = {});

struct StepWork {
  double flops = 0;           // by the definition
  double computed_flops = 0;  // what the kernel computes, if it reports it; else 0
  double bytes = 0;           // read and written
};
StepWork work_of(const Program& program, const Node& node);

/// Fills flops, bytes, their shares of the peaks and `bound`. Three least times at the peaks are
/// compared with the median: of the FLOPs (`compute`), the bytes (`memory`) and the timing's steps
/// (`launch`). The largest names the bound if it is at least 40 % of the median, else the bound is
/// `unknown`. `parallel_steps`: how many steps run side by side.
void judge(Timing& timing, const WorkLoad& load, const Peaks& peaks, at::ScalarType dtype,
           double parallel_steps = 1);

}  // namespace wide
