#include "engine/record/training_form.h"

namespace wide {
namespace {

thread_local TrainingForm* current_form = nullptr;

}  // namespace

TrainingForm::TrainingForm() { current_form = this; }

TrainingForm::~TrainingForm() { current_form = nullptr; }

bool in_training_form() {
  if (current_form == nullptr) return false;
  ++current_form->asked;
  return true;
}

}  // namespace wide
