#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace wide {

/// A user's mistake or a limit of the machine, in one line:
/// `[thing] what: got X, expected Y; try Z`. `exit_code` is the documented one of the command line
/// (1 environment, 2 usage or bad input, 4 incorrect, 5 does not fit or crashed, 6 no such device).
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& line, int exit_code = 2)
      : std::runtime_error(line), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// Something that cannot run here: a strategy that does not apply, a mode without a lowering. In a
/// sweep the trial is `unsupported` with this reason.
class Unsupported : public Error {
 public:
  using Error::Error;
};

/// Throws `Error` with a formatted line.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...));
}

/// The first line of an exception's text, without PyTorch's backtrace.
std::string first_line(const std::exception& thrown);

/// The names of all that have one.
template <class All>
std::vector<std::string> names_of(const All& all) {
  std::vector<std::string> names;
  for (const auto& one : all) names.push_back(one.name);
  return names;
}

/// The nearest of `names` to a misspelt one, or `otherwise` if none is near.
std::string nearest(const std::string& name, const std::vector<std::string>& names,
                    const std::string& otherwise = "");

/// Checks for a bug of this project: throws with the place in the source.
#define WIDE_ASSERT(condition, ...)                                                     \
  do {                                                                                  \
    if (!(condition))                                                                   \
      throw std::logic_error(                                                           \
          fmt::format("internal error at {}:{}: {} ", __FILE__, __LINE__, #condition) + \
          fmt::format("" __VA_ARGS__));                                                 \
  } while (false)

}  // namespace wide
