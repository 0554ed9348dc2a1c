#pragma once
#include <string>
#include <vector>

namespace wide {

/// The value of trials that a plot shows, beside their errors.
enum class Measure { speedup, time, throughput, memory, roofline, compile };
const std::vector<Measure>& measures();
/// The name in settings and lists of choices: "speedup".
const char* to_string(Measure measure);
/// The measure of a name; speedup for any other text.
Measure measure_of(const std::string& word);

/// "12.3 µs", "4.56 GB", "3.2×": a value as its measure's axis shows it.
std::string value_text(Measure measure, double value);
/// "time of a call of all N, quartiles"; `over`: what a speedup is over.
std::string measure_title(Measure measure, const std::string& over);

}  // namespace wide
