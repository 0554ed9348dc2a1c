#include "data/networks/pt2/call_list.h"

#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <functional>

#include "data/bytes/refuse.h"
#include "data/networks/pt2/numbers.h"
#include "data/one_line.h"

namespace wide::pt2 {
namespace {

/// Grad and autocast modes of sub-graphs, restored in reverse order, also after an exception.
class Modes {
 public:
  Modes() = default;
  Modes(const Modes&) = delete;
  Modes& operator=(const Modes&) = delete;
  ~Modes() {
    while (!undo_.empty()) leave();
  }

  void set_grad(bool on) {
    undo_.push_back([was = at::GradMode::is_enabled()] { at::GradMode::set_enabled(was); });
    at::GradMode::set_enabled(on);
  }

  void set_autocast(const Step& step) {
    const c10::DeviceType device = step.device;
    undo_.push_back([device, on = at::autocast::is_autocast_enabled(device),
                     dtype = at::autocast::get_autocast_dtype(device),
                     cache = at::autocast::is_autocast_cache_enabled()] {
      at::autocast::set_autocast_enabled(device, on);
      at::autocast::set_autocast_dtype(device, dtype);
      at::autocast::set_autocast_cache_enabled(cache);
    });
    at::autocast::set_autocast_enabled(device, step.detail);
    if (step.dtype != at::ScalarType::Undefined)
      at::autocast::set_autocast_dtype(device, step.dtype);
    // The autocast cache keeps only casts of weights that require gradients; these weights do not.
    at::autocast::set_autocast_cache_enabled(false);
  }

  void leave() {
    undo_.back()();
    undo_.pop_back();
  }

 private:
  std::vector<std::function<void()>> undo_;
};

c10::IValue filled(const Filling& f, Registers& registers) {
  const auto at = [&](size_t i) -> const c10::IValue& {
    return registers[static_cast<size_t>(f.values[i])];
  };
  switch (f.kind) {
    case Filling::Kind::value:
      return f.last ? std::move(registers[static_cast<size_t>(f.values[0])]) : at(0);
    case Filling::Kind::number_tensor:
      return number_tensor(at(0));
    case Filling::Kind::real:
      return at(0).toScalar().toDouble();
    case Filling::Kind::tensors: {
      c10::List<at::Tensor> list;
      list.reserve(f.values.size());
      for (size_t i = 0; i < f.values.size(); ++i) list.push_back(at(i).toTensor());
      return list;
    }
    case Filling::Kind::optional_tensors: {
      c10::List<std::optional<at::Tensor>> list;
      for (size_t i = 0; i < f.values.size(); ++i)
        list.push_back(f.values[i] < 0 ? std::nullopt : std::optional(at(i).toTensor()));
      return list;
    }
    case Filling::Kind::integers: {
      std::vector<int64_t> list = f.numbers;
      for (size_t i = 0; i < f.values.size(); ++i)
        if (f.values[i] >= 0) list[i] = at(i).toScalar().toLong();
      return list;
    }
    case Filling::Kind::reals: {
      std::vector<double> list;
      for (size_t i = 0; i < f.values.size(); ++i) list.push_back(at(i).toScalar().toDouble());
      return list;
    }
  }
  return {};
}

const c10::OperatorName kView("aten::view", "");

/// Whether `view` works without a copy. Kernels, such as those of attention, may use other strides
/// than those PyTorch traced; `reshape` then gives the same values.
bool can_view(const std::vector<c10::IValue>& arguments) {
  const at::Tensor& t = arguments[0].toTensor();
  const std::vector<int64_t> sizes = at::infer_size(arguments[1].toIntVector(), t.numel());
  return at::detail::computeStride(t.sizes(), t.strides(), sizes).has_value();
}

const c10::OperatorHandle& reshape() {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::reshape", "");
  return op;
}

void call(const std::string& file, const Step& step, Registers& registers,
          std::vector<c10::IValue>& stack) {
  stack = step.arguments;
  for (const Filling& f : step.fillings) stack[f.place] = filled(f, registers);
  const c10::OperatorHandle& op =
      step.op->operator_name() == kView && !can_view(stack) ? reshape() : *step.op;
  op.callBoxed(&stack);
  for (size_t i = 0; i < step.results.size(); ++i) {
    const std::vector<int>& to = step.results[i];
    if (to.size() == 1 && !stack[i].isTensorList()) {
      if (to[0] >= 0) registers[static_cast<size_t>(to[0])] = std::move(stack[i]);
      continue;
    }
    if (!stack[i].isTensorList()) continue;
    const c10::List<at::Tensor> list = stack[i].toTensorList();
    if (list.size() < to.size())
      refuse(file, "operator " + step.op->schema().name(), fmt::format("{} results", list.size()),
             fmt::format("{} as exported", to.size()), "export it for these inputs");
    for (size_t k = 0; k < to.size(); ++k)
      if (to[k] >= 0) registers[static_cast<size_t>(to[k])] = list.get(k);
  }
}

void compute(const std::string& file, const Step& step, Registers& registers,
             std::vector<c10::IValue>& stack) {
  const auto read = [&]() -> const c10::IValue& {
    return registers[static_cast<size_t>(step.fillings[0].values[0])];
  };
  const auto write = [&](c10::IValue value) {
    registers[static_cast<size_t>(step.results[0][0])] = std::move(value);
  };
  switch (step.kind) {
    case Step::Kind::call:
      return call(file, step, registers, stack);
    case Step::Kind::size:
      return write(read().toTensor().size(step.detail));
    case Step::Kind::count:
      return write(read().toTensor().numel());
    case Step::Kind::python: {
      stack = step.arguments;
      for (const Filling& f : step.fillings) stack[f.place] = filled(f, registers);
      return write(python_number(step.text, stack));
    }
    case Step::Kind::check:
      if (read().toScalar().equal(0))
        refuse(file, "condition of the export", "inputs that do not meet it",
               printable(step.text, 200), "give other inputs");
      return;
    case Step::Kind::grad:
    case Step::Kind::autocast:
    case Step::Kind::leave:
      return;
  }
}

}  // namespace

Registers CallList::registers() const {
  Registers made(register_count);
  for (const auto& [index, value] : constants) made[static_cast<size_t>(index)] = value;
  return made;
}

std::vector<c10::IValue> CallList::run(Registers& registers) const {
  Modes modes;
  std::vector<c10::IValue> stack;
  for (const Step& step : steps) {
    try {
      if (step.kind == Step::Kind::grad)
        modes.set_grad(step.detail);
      else if (step.kind == Step::Kind::autocast)
        modes.set_autocast(step);
      else if (step.kind == Step::Kind::leave)
        modes.leave();
      else
        compute(file, step, registers, stack);
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& e) {
      const std::string what = "operator " + (step.op ? step.op->schema().name() : step.text);
      if (is_out_of_memory(e))
        throw Error(fmt::format("[{}] {}: got {}, expected less memory; try smaller inputs",
                                printable(file), what, one_line(e)),
                    5);
      refuse(file, what, one_line(e), "one that can be computed", "export it for these inputs");
    }
    for (const int dead : step.dead) registers[static_cast<size_t>(dead)] = c10::IValue();
  }
  std::vector<c10::IValue> results;
  results.reserve(outputs.size());
  for (const int r : outputs)
    results.push_back(r < 0 ? c10::IValue() : registers[static_cast<size_t>(r)]);
  return results;
}

}  // namespace wide::pt2
