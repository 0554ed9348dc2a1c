#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace wide {

/// Something that runs once or several times in a call: a model, an operator, a range or a step.
struct TimelineItem {
  std::string kind;  // "model", "operator" (of the loop); "shared", "range", "step" (of a program)
  std::string name;
  std::string module, primitive, strategy, shape;  // of a step
  int32_t node = -1;          // of a step: where it comes from in the program of one model
  double flops = 0;           // of a step, by the definition
  double computed_flops = 0;  // what the kernel computes, if it reports it; else 0
  double bytes = 0;           // of a step: read and written
};

/// One run of an item: begin and end in nanoseconds since the call began.
struct TimelineSpan {
  int32_t item = 0, lane = 0;
  int32_t core = -1;  // the thread's core at its end; -1: not asked
  double begin_ns = 0, end_ns = 0;
};

/// One call on a timeline: the one of median length among several watched calls.
struct TimelineCall {
  std::string name;          // "loop", "wide"
  int64_t calls = 0;         // number of watched calls
  double call_ns = 0;        // the length of the shown call: the median
  int64_t cores_a_lane = 1;  // cores that work in one lane may use
  std::vector<std::string> lanes;
  std::vector<TimelineItem> items;
  std::vector<TimelineSpan> spans;  // sorted by begin; a nested span comes after its parent
  std::vector<std::string> notes;   // what could not be measured
};

/// How many calls are watched.
constexpr int kWatchedCalls = 11;

/// The index of the median.
size_t median_at(const std::vector<double>& ns);
/// Sorts spans as in `TimelineCall::spans`.
void sort_spans(std::vector<TimelineSpan>& spans);

}  // namespace wide
