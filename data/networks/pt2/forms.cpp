#include "data/networks/pt2/forms.h"

#include "data/networks/mode_flags.h"

namespace wide::pt2 {
namespace {

/// A call's flag.
struct Found {
  const ModeFlag* flag = nullptr;
  size_t place = 0;
};

bool is_filled(const Step& step, size_t place) {
  for (const Filling& filling : step.fillings)
    if (filling.place == place) return true;
  return false;
}

Found find(const Step& step) {
  if (step.kind != Step::Kind::call || !step.op) return {};
  const ModeFlag* flag = mode_flag(step.op->schema().name());
  if (!flag) return {};
  const auto& schema = step.op->schema();
  const auto place = schema.argumentIndexWithName(std::string(flag->argument));
  if (!place || is_filled(step, static_cast<size_t>(*place))) return {};
  if (!flag->needs.empty()) {
    const auto needed = schema.argumentIndexWithName(std::string(flag->needs));
    if (!needed || !is_filled(step, static_cast<size_t>(*needed))) return {};
  }
  return {flag, static_cast<size_t>(*place)};
}

bool is_on(const Step& step, const Found& found) {
  const c10::IValue& value = step.arguments[found.place];
  if (found.flag->probability) return value.isDouble() && value.toDouble() > 0;
  return value.isBool() && value.toBool();
}

}  // namespace

FormFlags form_flags(const CallList& calls) {
  FormFlags flags;
  for (const Step& step : calls.steps) {
    if (step.kind == Step::Kind::call && step.op && is_bound_to_mode(step.op->schema().name()))
      flags.bound = step.op->schema().name();
    const Found found = find(step);
    if (!found.flag) continue;
    const bool on = is_on(step, found);
    flags.exported_for_training = flags.exported_for_training || on;
    // A probability that is 0 cannot be switched on: what it was is not in the file.
    if (found.flag->probability && !on) continue;
    ++(found.flag->what == ModeFlag::What::dropout ? flags.dropout : flags.batch_norm);
  }
  return flags;
}

void bring_into(Form form, CallList* calls) {
  if (form == Form::as_exported) return;
  const bool was_training = form_flags(*calls).exported_for_training;
  if (form == Form::train && was_training) return;  // with what was frozen in it
  for (Step& step : calls->steps) {
    const Found found = find(step);
    if (!found.flag) continue;
    if (!found.flag->probability)
      step.arguments[found.place] = form == Form::train;
    else if (form == Form::evaluate)
      step.arguments[found.place] = 0.0;
  }
}

}  // namespace wide::pt2
