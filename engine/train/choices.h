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

/// What was chosen for every size of batch, and again for fewer models, as text that a later run
/// takes.
struct Choices {
  int threads = 0;
  bool exact = false;
  std::map<std::string, std::map<int64_t, Choice>> by_size;  // then by models that ran

  /// What holds for so many running models, and how many it was chosen for: the fewest that are no
  /// fewer, none where those were far more and `anew_for_fewer`. A later run that loses the same
  /// models finds the same.
  const std::pair<const int64_t, Choice>* find(const std::string& size, int64_t running,
                                               bool anew_for_fewer) const;
  std::string text() const;
  /// Throws Error for a text that is none.
  static Choices parse(const std::string& text);
};

}  // namespace wide
