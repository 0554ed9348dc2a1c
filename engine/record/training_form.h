#pragma once
#include <cstdint>

namespace wide {

/// While it exists, networks that this thread calls and that ask `in_training_form` act as in
/// training: batch norms use the batch's statistics and update the running ones. Does not nest.
class TrainingForm {
 public:
  TrainingForm();
  ~TrainingForm();
  TrainingForm(const TrainingForm&) = delete;
  TrainingForm& operator=(const TrainingForm&) = delete;

  int64_t asked = 0;  // number of calls of in_training_form so far
};

/// Whether this thread has one. Registered networks (blocks/layers.h) ask for each training flag.
bool in_training_form();

}  // namespace wide
