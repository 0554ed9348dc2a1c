#include "engine/record/training_form.h"

namespace wide {
namespace {

thread_local TrainingForm* current = nullptr;

}  // namespace

TrainingForm::TrainingForm() { current = this; }

TrainingForm::~TrainingForm() { current = nullptr; }

bool in_training_form() {
  if (current == nullptr) return false;
  ++current->asked;
  return true;
}

}  // namespace wide
