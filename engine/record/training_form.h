#pragma once
#include <cstdint>

namespace wide {

/// While it lives, networks that this thread calls and that ask `in_training_form` are in their
/// form for training: batch norms take a batch's own statistics and update the running ones. Does
/// not nest.
class TrainingForm {
 public:
  TrainingForm();
  ~TrainingForm();
  TrainingForm(const TrainingForm&) = delete;
  TrainingForm& operator=(const TrainingForm&) = delete;

  int64_t asked = 0;  // how often so far
};

/// For the flags of a registered network's calls, one question each.
bool in_training_form();

}  // namespace wide
