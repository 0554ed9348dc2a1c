#pragma once
#include <map>
#include <string>

namespace wide {

/// How batches of one size are computed.
struct Choice {
  int64_t models_at_a_time = 0;
  std::map<std::string, std::string> strategies;  // by claimed call
};

/// What was chosen for every size of batch, as text that a later run takes.
struct Choices {
  int threads = 0;
  bool exact = false;
  std::map<std::string, Choice> by_size;

  std::string text() const;
  /// Throws Error for a text that is none.
  static Choices parse(const std::string& text);
};

}  // namespace wide
