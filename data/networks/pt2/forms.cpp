#include "data/networks/pt2/forms.h"

#include <variant>

#include "data/networks/mode_flags.h"

namespace wide::pt2 {
namespace {

/// A call's flag for training or evaluation, and its argument.
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

/// A step that calls `op` on registers and constants.
using RegisterOrValue = std::variant<int, c10::IValue>;
Step calling(const char* op, const char* overload, const std::vector<RegisterOrValue>& arguments,
             int result) {
  Step step;
  step.op = c10::Dispatcher::singleton().findSchemaOrThrow(op, overload);
  step.arguments.resize(step.op->schema().arguments().size());
  for (size_t i = 0; i < step.arguments.size(); ++i) {
    if (i >= arguments.size()) {
      if (const auto& value = step.op->schema().arguments()[i].default_value())
        step.arguments[i] = *value;
    } else if (const int* at = std::get_if<int>(&arguments[i])) {
      step.fillings.push_back({.place = i, .values = {*at}});
    } else {
      step.arguments[i] = std::get<c10::IValue>(arguments[i]);
    }
  }
  step.results = {{result}};
  return step;
}

/// The register of a step's argument if it is an input of the graph, else -1.
int input_at(Step* step, const char* argument, const Program& program) {
  const auto place = step->op->schema().argumentIndexWithName(argument);
  for (Filling& filling : step->fillings)
    if (place && filling.place == static_cast<size_t>(*place) && filling.values.size() == 1 &&
        filling.values[0] >= 0 && static_cast<size_t>(filling.values[0]) < program.inputs.size()) {
      filling.last = false;
      return filling.values[0];
    }
  return -1;
}

/// The input num_batches_tracked of the batch norm whose running mean is input `mean`, or -1.
int counter_of(int mean, const Program& program) {
  const std::string& name = program.inputs[static_cast<size_t>(mean)].target;
  const std::string counter = name.substr(0, name.rfind('.') + 1) + "num_batches_tracked";
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].target == counter) return static_cast<int>(i);
  return -1;
}

/// Adds num_batches_tracked += 1 to batch norms, which an export for evaluation lacks. An instance
/// norm counts none. momentum=None: the statistics are the mean over all batches so far. In
/// evaluation PyTorch writes such a momentum as 0.
void count_batches(const Program& program, CallList* calls) {
  std::vector<Step> steps;
  for (Step& step : calls->steps) {
    const Found found = find(step);
    const auto momentum = found.flag && found.flag->what == ModeFlag::What::batch_norm &&
                                  step.op->schema().name() != "aten::instance_norm"
                              ? step.op->schema().argumentIndexWithName("momentum")
                              : std::nullopt;
    const int mean = momentum ? input_at(&step, "running_mean", program) : -1;
    const int var = momentum ? input_at(&step, "running_var", program) : -1;
    const int counter = mean >= 0 && var >= 0 ? counter_of(mean, program) : -1;
    if (counter < 0) {
      steps.push_back(std::move(step));
      continue;
    }
    const auto fresh = [&] { return static_cast<int>(calls->register_count++); };
    const int unused = fresh();
    steps.push_back(calling("aten::add_", "Scalar", {counter, c10::IValue(int64_t{1})}, unused));
    const bool averages = !is_filled(step, static_cast<size_t>(*momentum)) &&
                          step.arguments[static_cast<size_t>(*momentum)].isDouble() &&
                          step.arguments[static_cast<size_t>(*momentum)].toDouble() == 0;
    if (!averages) {
      steps.push_back(std::move(step));
      continue;
    }
    const int share = fresh();
    steps.push_back(calling("aten::reciprocal", "", {counter}, share));
    std::vector<std::pair<int, int>> before;
    for (const int statistic : {mean, var}) {
      before.emplace_back(statistic, fresh());
      steps.push_back(calling("aten::clone", "", {statistic}, before.back().second));
    }
    step.arguments[static_cast<size_t>(*momentum)] = 1.0;  // only this batch
    steps.push_back(std::move(step));
    for (const auto& [statistic, old] : before) {
      const int change = fresh(), part = fresh(), now = fresh();
      steps.push_back(calling("aten::sub", "Tensor", {statistic, old}, change));
      steps.push_back(calling("aten::mul", "Tensor", {change, share}, part));
      steps.push_back(calling("aten::add", "Tensor", {old, part}, now));
      steps.push_back(calling("aten::copy_", "", {statistic, now}, unused));
    }
  }
  calls->steps = std::move(steps);
}

}  // namespace

FormFlags form_flags(const CallList& list) {
  FormFlags flags;
  for (const Step& step : list.steps) {
    if (step.kind == Step::Kind::call && step.op && is_bound_to_mode(step.op->schema().name()))
      flags.bound = step.op->schema().name();
    const Found found = find(step);
    if (!found.flag) continue;
    const bool on = is_on(step, found);
    flags.exported_for_training = flags.exported_for_training || on;
    // A probability that the export set to 0 cannot be switched on: its old value is not known.
    if (found.flag->probability && !on) continue;
    FormCalls& calls =
        found.flag->what == ModeFlag::What::dropout ? flags.dropout : flags.batch_norm;
    ++calls.all;
    calls.on += on;
  }
  return flags;
}

void bring_into(Form form, const Program& program, CallList* calls) {
  if (form == Form::as_exported) return;
  const bool was_training = form_flags(*calls).exported_for_training;
  if (form == Form::train && was_training) return;  // keeps frozen calls frozen
  if (form == Form::train) count_batches(program, calls);
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
