#pragma once
#include <string>
#include <vector>

namespace wide {

/// What a plot shows of each trial along N, beside its error.
enum class Measure { speedup, time, throughput, memory, roofline, compile };
const std::vector<Measure>& measures();
/// "speedup", as settings and lists of choices have it.
const char* to_string(Measure measure);
/// The speedup for any other word.
Measure measure_of(const std::string& word);

/// "12.3 µs", "4.56 GB", "3.2×": a value as the axis of its measure has it.
std::string value_text(Measure measure, double value);
/// "time of a call of all N, quartiles"; `over`: what a speedup is over.
std::string measure_title(Measure measure, const std::string& over);

}  // namespace wide
