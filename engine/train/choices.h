#pragma once
#include <map>
#include <string>

#include "engine/lower/tune/tuned_widening.h"

namespace wide {

/// How batches of one size are computed.
struct Choice {
  int64_t models_at_a_time = 0;
  TunedWidening::Strategies strategies;
};

/// The choices for every batch size and number of running models, which later runs read as text.
struct Choices {
  int threads = 0;
  bool exact = false;
  std::map<std::string, std::map<int64_t, Choice>> by_size;  // then by running models
  const std::pair<const int64_t, Choice>* find(const std::string& size, int64_t running,
                                               bool anew_for_fewer) const;
  std::string text() const;
  /// Throws Error for invalid text.
  static Choices parse(const std::string& text);
};

}  // namespace wide
