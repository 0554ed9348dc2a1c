#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wide {

/// `text` with control characters and quotes escaped, so that a name from a file can never break
/// the one line an error is allowed.
std::string printable(std::string_view text, size_t limit = 120);

/// "a, b, c and 4 more".
std::string listing(const std::vector<std::string>& names, size_t shown = 3);

/// The parts of `text` between commas, spaces around them dropped, empty ones left out.
std::vector<std::string> split(std::string_view text, char separator = ',');

/// The integer that the whole text is; nullopt for others, such as 1.5 and 1x.
std::optional<int64_t> whole_number(std::string_view text);

/// ASCII letters in lower case; other bytes stay.
std::string lower_case(std::string text);

/// Orders by the numbers in names: "w10" after "w9", not after "w1".
bool natural_less(const std::string& a, const std::string& b);

/// "1.5 MB", as people read it (powers of 1000).
std::string bytes_text(double bytes);
/// "3.4 ms", three digits.
std::string time_text(double nanoseconds);

/// Writes to stderr and never fails: what a closed stderr or a full disk does not take is lost.
void write_stderr(std::string_view text);

}  // namespace wide
