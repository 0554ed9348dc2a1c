#include "engine/train/optimizer/list_step.h"

namespace wide {
namespace {

template <class T>
void by_formula(void (*formula)(const ParameterStep<T>&), const ListStep& s) {
  for (size_t k = 0; k < s.parameters.size(); ++k) {
    const at::Tensor gradient = s.gradients[k].contiguous();
    std::vector<T*> state;
    for (const auto& list : s.state)
      state.push_back(list.empty() ? nullptr : list[k].mutable_data_ptr<T>());
    formula({.count = s.parameters[k].numel(),
             .parameter = s.parameters[k].mutable_data_ptr<T>(),
             .gradient = gradient.const_data_ptr<T>(),
             .hyper = s.hyper,
             .step = s.step,
             .state = state.data()});
  }
}

}  // namespace

void list_step(const Optimizer& optimizer, const ListStep& s) {
  if (s.parameters.empty()) return;
  if (optimizer.step_lists) return optimizer.step_lists(s);
  if (s.parameters[0].scalar_type() == at::kDouble)
    by_formula(optimizer.step_f64, s);
  else
    by_formula(optimizer.step_f32, s);
}

}  // namespace wide
