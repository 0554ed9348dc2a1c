#include "engine/lower/plan/plan.h"

#include <ATen/ATen.h>

#include "engine/device.h"
#include "engine/error.h"
#include "engine/lower/plan/plan_builder.h"
#include "engine/machine/clock.h"
#include "engine/measure/stopwatch.h"
#include "engine/passes/pass.h"

namespace wide {

namespace {
// Lists PlanOptions::kernels and PlanOptions::arena, which PlanBuilder implements, as passes.
[[maybe_unused]] const bool passes_registered =
    add_pass(
        {"kernels",
         "packs weights of convolutions; kernels do the sum, activation and pooling behind them",
         Stage::lowering, 20}) &&
    add_pass({"memory-plan",
              "lets operators write into one arena, by lifetime, in place where they can",
              Stage::lowering, 30});
}  // namespace

Window::Window(const Value& value) {
  int64_t extent = value.numel() == 0 ? 0 : 1;
  for (size_t i = 0; i < value.sizes.size(); ++i) extent += (value.sizes[i] - 1) * value.strides[i];
  const auto bytes =
      static_cast<size_t>(std::max<int64_t>(extent, 0)) * c10::elementSize(value.dtype);
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       c10::DataPtr(nullptr, value.device), nullptr,
                                                       /*resizable=*/false);
  tensor_ = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)),
      c10::DispatchKeySet(c10::computeDispatchKey(value.dtype, c10::kStrided, value.device)),
      c10::scalarTypeToTypeMeta(value.dtype));
  tensor_.unsafeGetTensorImpl()->set_sizes_and_strides(value.sizes, value.strides);
}

void Window::point_at(void* data) {
  tensor_.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      c10::DataPtr(data, tensor_.device()));
}

Plan::Plan(const Program& program, const std::unordered_map<ValueId, Tensor>& prologue,
           const PlanOptions& options) {
  at::NoGradGuard no_grad;
  PlanBuilder(*this, program, prologue, options).build();
}

Plan::Memory Plan::memory_of(const Program& program, const PlanOptions& options) {
  const at::NoGradGuard no_grad;
  const std::unordered_map<ValueId, Tensor> unknown;
  Plan plan;
  return PlanBuilder(plan, program, unknown, options).memory();
}

void Plan::bind(size_t k, const Tensor& tensor) {
  if (windows_[k].exists() && !prepare_.count(k)) {
    windows_[k].point_at(tensor.data_ptr());
  } else {
    kept_[k] = tensor;
  }
}

Tensor Plan::prepare(size_t k, const Tensor& tensor) const {
  auto it = prepare_.find(k);
  return it == prepare_.end() ? tensor : it->second(tensor);
}

void Plan::bind_outputs(const std::vector<void*>& data) {
  for (size_t k = 0; k < output_windows_.size(); ++k)
    windows_[output_windows_[k]].point_at(data[k]);
  for (auto& [window, place] : in_lent_)
    window.point_at(static_cast<char*>(data[static_cast<size_t>(place.lent)]) + place.offset);
}

void Plan::execute(Step& step) {
  Stack stack;
  stack.reserve(std::max(step.stack.size(), size_t{4}));
  stack.assign(step.stack.begin(), step.stack.end());
  for (const auto& [argument, outside] : step.patches) stack[argument] = kept_[outside];
  // The operator would resolve conjugates in the list itself: give it a copy.
  for (const size_t argument : step.lists) stack[argument] = stack[argument].toTensorList().copy();
  step.op.callBoxed(&stack);
  for (const FreshResult& r : step.results) {
    Tensor made = r.element < 0
                      ? stack[r.result].toTensor()
                      : stack[r.result].toTensorList().get(static_cast<size_t>(r.element));
    const Tensor& planned = windows_[r.window].tensor();
    if (made.sizes() != planned.sizes())
      fail(
          "[{}] result: got {}, expected {} as it was recorded; try a network whose sizes follow "
          "from those of its inputs",
          step.op.schema().name(), fmt::format("[{}]", fmt::join(made.sizes(), ", ")),
          fmt::format("[{}]", fmt::join(planned.sizes(), ", ")));
    if (made.strides() != planned.strides()) {
      // The kernel chose other strides than in the recording: copy into the planned strides.
      Tensor laid = at::empty_strided(planned.sizes(), planned.strides(), made.options());
      made = laid.copy_(made);
    }
    if (r.given >= 0) {
      // An operator may return a view without saying so, whose memory is another value's.
      const bool own = made.storage().use_count() == 1 && made.storage().nbytes() == made.nbytes();
      if (!own) made = made.clone();
      given_[static_cast<size_t>(r.given)] = made;
    }
    windows_[r.window].point_at(made.data_ptr());
    held_[r.window] = std::move(made);
  }
  for (auto& [value, window] : step.copies) window.copy_(value);
  for (size_t w : step.releases) held_[w].reset();
}

void Plan::place_arena() {
  char* const at = memory_->data();
  WIDE_ASSERT(at != nullptr || arena_bytes_ == 0, "an arena without memory");
  if (at == arena_at_) return;
  for (auto& [window, offset] : in_arena_) window.point_at(at + offset);
  arena_at_ = at;
}

void Plan::run_steps() {
  place_arena();
  for (Step& step : steps_) execute(step);
}

void Plan::run() {
  run_steps();
  for (auto& [value, window] : copies_) window.copy_(value);
}

std::vector<double> Plan::run_timed(c10::Device device) {
  // Timers are read at the end: waiting for the device after each step would leave it idle.
  place_arena();
  std::vector<Stopwatch> watches;
  for (size_t s = 0; s < steps_.size(); ++s) watches.emplace_back(device);
  for (size_t s = 0; s < steps_.size(); ++s) {
    watches[s].start();
    execute(steps_[s]);
    watches[s].stop();
  }
  for (auto& [value, window] : copies_) window.copy_(value);
  std::vector<double> ns;
  for (Stopwatch& watch : watches) ns.push_back(watch.ns());
  return ns;
}

void Plan::run_stamped(c10::Device device, std::vector<double>& at_ns) {
  at_ns.clear();
  at_ns.reserve(steps_.size() + 2);
  place_arena();
  for (Step& step : steps_) {
    at_ns.push_back(now_ns());
    execute(step);
    if (!device.is_cpu()) synchronize(device);
  }
  at_ns.push_back(now_ns());
  for (auto& [value, window] : copies_) window.copy_(value);
  if (!device.is_cpu()) synchronize(device);
  at_ns.push_back(now_ns());
}

std::string Plan::text() const {
  size_t copies = copies_.size();
  for (const Step& step : steps_) copies += step.copies.size();
  std::string out = fmt::format("{} steps, arena {} bytes, {} results copied out\n", steps_.size(),
                                arena_bytes_, copies);
  for (const std::string& note : notes_) out += "  " + note + "\n";
  for (const Step& step : steps_) out += fmt::format("  {} {}\n", step.text, step.shape);
  return out;
}

void run_phase(const Program& program, Phase phase, std::unordered_map<ValueId, Tensor>& known) {
  for (const Node& node : program.nodes) {
    if (node.phase != phase) continue;
    Stack stack = make_stack(node.arguments, [&](ValueId id) {
      const Value& v = program.value(id);
      return v.role == Role::constant ? v.constant : known.at(id);
    });
    node.op.callBoxed(&stack);
    take_results(node.results, stack, [&](ValueId id, const Tensor& t) { known[id] = t; });
  }
}

}  // namespace wide
