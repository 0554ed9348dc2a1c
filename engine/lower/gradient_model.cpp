#include "engine/lower/gradient_model.h"

#include <ATen/ATen.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "engine/error.h"
#include "engine/lower/memory/plain_memory.h"
#include "engine/machine/large_pages.h"

namespace wide {
namespace {

constexpr int64_t kLine = 128;  // bytes; two threads' ranges never write into the same one

int64_t up_to_line(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

char* row(const Tensor& t, int64_t begin) {
  const int64_t stride = t.size(0) == 0 ? 0 : t.numel() / t.size(0);
  return static_cast<char*>(t.data_ptr()) + begin * stride * static_cast<int64_t>(t.element_size());
}

/// The tensors made contiguous by `in_plain_memory`; undefined ones stay undefined.
Tensors plain_ones(const Tensors& tensors) {
  Tensors plain;
  for (const Tensor& t : tensors) plain.push_back(t.defined() ? in_plain_memory(t) : t);
  return plain;
}

}  // namespace

GradientModel::GradientModel(const std::shared_ptr<WithGradients>& what, const Ensemble& ensemble,
                             const ExecutorOptions& options, const MakeProgram& whole)
    : what_(what),
      n_(ensemble.n),
      shared_(ensemble.shared),
      arenas_(make_arenas(options.threads, kUnmapped_bytes)),
      forward_(make_forward(ensemble, options, whole)),
      backward_(make_backward(ensemble, options)) {
  place_saved();
  const PerSize& first = sizes_.at(forward_.models_at_a_time());
  const Program& program = first.halves.forward->wide.program;
  const auto add = [&](ValueId id) {
    results_.push_back(program.value(id));
    results_.back().sizes[0] = n_;
  };
  for (size_t k = 0; k < what_->outputs(); ++k) add(program.outputs[k]);
  for (const Update& u : program.updates) add(u.value);
  free_unused_memory();  // training steps need other memory than results alone
}

/// Saved values lie where the plan of the backward pass wants them.
void GradientModel::place_saved() {
  for (size_t k = 0; k < of().size(); ++k)
    if (reached_[k]) results_of_.push_back(k);
  saves_in_.assign(results_of_.size(), false);
  for (auto& [n, size] : sizes_) {
    const Plan& plan = backward_.plan(n);
    size.kept = plan.kept_bytes();
    size_t next = 0;
    for (const SavedValue& s : size.halves.saved) {
      const bool own = s.output < 0 && !s.of_all;
      size.places.push_back(own ? plan.placed()[next++] : BufferPlace());
      const auto in = static_cast<size_t>(size.places.back().lent);
      if (own && in < saves_in_.size()) saves_in_[in] = true;
    }
  }
  const int64_t count = forward_.ranges();
  for (int64_t k = 0; k < count; ++k) {
    const int64_t begin = n_ * k / count, end = n_ * (k + 1) / count;
    range_offset_[begin] = block_bytes_;
    block_bytes_ += up_to_line(sizes_.at(end - begin).kept);
    for (const SavedValue& s : sizes_.at(end - begin).halves.saved)
      if (s.output < 0 && !s.of_all) saved_bytes_ += s.value.bytes();
  }
  for (auto& [n, size] : sizes_)
    for (size_t k = 0; k < size.places.size(); ++k) {
      const SavedValue& s = size.halves.saved[k];
      if (!s.of_all) continue;
      size.places[k].offset = block_bytes_;
      block_bytes_ += up_to_line(s.value.bytes());
      saved_bytes_ += s.value.bytes();
    }
}

ExecutorOptions GradientModel::with_arenas(ExecutorOptions options) const {
  options.arenas = arenas_;
  return options;
}

Executor GradientModel::make_forward(const Ensemble& ensemble, const ExecutorOptions& options,
                                     const MakeProgram& whole) {
  const MakeProgram make = [&](int64_t begin, int64_t n) {
    const auto program = whole(begin, n);
    differentiable_ = what_->differentiable();
    reached_ = what_->reached();
    PerSize& size = sizes_[n];
    size.halves = cut(*program, what_->outputs(), reached_, (n_ + n - 1) / n, options.threads);
    reads_.resize(std::max(reads_.size(), size.halves.reads.size()));
    for (size_t i = 0; i < size.halves.reads.size(); ++i)
      reads_[i] = reads_[i] || size.halves.reads[i];
    reads_output_.resize(what_->outputs());
    for (const SavedValue& s : size.halves.saved)
      if (s.output >= 0) reads_output_[static_cast<size_t>(s.output)] = true;
    return size.halves.forward;
  };
  return Executor(what_->form(), ensemble, make, with_arenas(options));
}

Executor GradientModel::make_backward(const Ensemble& ensemble,
                                      const ExecutorOptions& options) const {
  Ensemble bound = ensemble;
  size_t most = 0;
  for (const auto& [n, size] : sizes_) most = std::max(most, size.halves.saved.size());
  bound.tensors.resize(bound.tensors.size() + most);
  bound.shared.resize(bound.tensors.size(), false);
  return Executor(
      what_->form(), bound, [&](int64_t, int64_t n) { return sizes_.at(n).halves.backward; },
      with_arenas(options));
}

Tensor GradientModel::new_gradient(size_t result) const {
  const Value& v = what_->form().value(what_->form().bound[of()[results_of_[result]]]);
  return empty_to_reuse(wide_sizes(n_, v.sizes), v.dtype, kUnmapped_bytes);
}

char* GradientModel::saved_at(const Saved& saved, const RangeAt& at, size_t k) const {
  const PerSize& size = sizes_.at(at.n);
  const BufferPlace& place = size.places[k];
  const auto in = static_cast<size_t>(place.lent);
  if (size.halves.saved[k].of_all || in >= saves_in_.size())
    return static_cast<char*>(saved.back().data_ptr()) + place.offset +
           (size.halves.saved[k].of_all ? 0 : range_offset_.at(at.begin));
  return row(saved[in], at.begin) + place.offset;
}

/// Saved value `k` for ranges of n models, if all models share it.
Tensor GradientModel::saved_of_all(const Saved& saved, int64_t n, size_t k) const {
  const std::vector<SavedValue>& all = sizes_.at(n).halves.saved;
  if (k >= all.size() || !all[k].of_all) return {};
  const Value& v = all[k].value;
  return at::for_blob(saved_at(saved, {0, 0, n}, k), v.sizes)
      .strides(v.strides)
      .options(at::TensorOptions().dtype(v.dtype))
      .make_tensor();
}

GradientModel::Forward GradientModel::forward(const Tensors& bound) {
  const at::NoGradGuard no_grad;
  const Tensors plain = plain_ones(bound);
  const std::lock_guard lock(mutex_);
  Forward made;
  Saved saved;
  for (size_t k = 0; k < saves_in_.size(); ++k)
    saved.push_back(saves_in_[k] ? new_gradient(k) : Tensor());
  saved.push_back(empty_to_reuse({block_bytes_}, at::kByte, kUnmapped_bytes));
  Tensors results;
  for (const Value& v : results_)
    results.push_back(empty_to_reuse(v.sizes, v.dtype, kUnmapped_bytes));
  const auto outputs = static_cast<std::ptrdiff_t>(what_->outputs());
  made.outputs.assign(results.begin(), results.begin() + outputs);
  made.updates.assign(results.begin() + outputs, results.end());
  RangeHooks hooks;
  hooks.results = [&](const RangeAt& at) {
    std::vector<void*> out;
    for (const Tensor& t : made.outputs) out.push_back(row(t, at.begin));
    const std::vector<SavedValue>& values = sizes_.at(at.n).halves.saved;
    for (size_t k = 0; k < values.size(); ++k)
      if (values[k].output < 0 && !values[k].of_all) out.push_back(saved_at(saved, at, k));
    for (const Tensor& t : made.updates) out.push_back(row(t, at.begin));
    return out;
  };
  forward_.run(plain, hooks);
  for (const auto& [n, size] : sizes_)
    for (size_t k = 0, asked = 0; k < size.halves.saved.size(); ++k)
      if (size.halves.saved[k].of_all)
        saved_of_all(saved, n, k)
            .copy_(forward_.shared_result(n, size.halves.forward->asked[asked++]));
  for (Tensor& t : saved)
    if (t.defined()) made.saved.push_back(std::move(t));
  return made;
}

/// The sum over ranges, each of which has summed over its own models.
Tensor GradientModel::sum_of_ranges(const Tensor& rows) const {
  Tensor sum;
  for (const auto& [begin, offset] : range_offset_) {
    const Tensor one = rows.select(0, begin);
    sum = sum.defined() ? sum.add_(one) : one.clone();
  }
  return sum;
}

Tensors GradientModel::backward(const Tensors& bound, const Tensors& outputs, Tensors given,
                                const Tensors& cotangents) {
  const at::NoGradGuard no_grad;
  Tensors all = plain_ones(bound);
  const std::vector<int64_t>& cotangent_at = what_->cotangents();
  all.resize(what_->form().bound.size());
  const size_t first_saved = all.size();
  for (size_t k = 0; k < cotangent_at.size(); ++k) {
    if (cotangent_at[k] < 0 || !differentiable_[k]) continue;
    const Value& v = results_[k];
    all[static_cast<size_t>(cotangent_at[k])] = cotangents[k].defined()
                                                    ? in_plain_memory(cotangents[k].detach())
                                                    : at::zeros(v.sizes, v.dtype);
  }
  const std::lock_guard lock(mutex_);
  for (Tensor& t : given)
    if (t.use_count() > 1 || t.storage().use_count() > 1) t = t.clone();
  Saved saved;
  for (size_t k = 0, next = 0; k < saves_in_.size(); ++k)
    saved.push_back(saves_in_[k] ? std::move(given[next++]) : new_gradient(k));
  saved.push_back(std::move(given.back()));
  RangeHooks hooks;
  hooks.source = [&](const RangeAt& at, size_t i) -> std::optional<void*> {
    if (i < first_saved) return std::nullopt;
    const SavedValue& s = sizes_.at(at.n).halves.saved[i - first_saved];
    return s.output < 0 ? saved_at(saved, at, i - first_saved)
                        : row(outputs[static_cast<size_t>(s.output)], at.begin);
  };
  hooks.of_all = [&](int64_t n, size_t i) {
    return i < first_saved ? Tensor() : saved_of_all(saved, n, i - first_saved);
  };
  hooks.results = [&](const RangeAt& at) {
    std::vector<void*> out;
    for (size_t k = 0; k < results_of_.size(); ++k) out.push_back(row(saved[k], at.begin));
    out.push_back(static_cast<char*>(saved.back().data_ptr()) + range_offset_.at(at.begin));
    return out;
  };
  backward_.run(all, hooks);
  Tensors gradients(of().size());
  for (size_t k = 0; k < results_of_.size(); ++k) {
    const size_t i = results_of_[k];
    bool led_to = false;
    for (size_t o = 0; o < cotangents.size(); ++o)
      led_to = led_to || (cotangents[o].defined() && what_->depends(o, i));
    if (led_to)
      gradients[i] = shared_[of()[i]] ? sum_of_ranges(saved[k]) : saved[k].variable_data();
  }
  return gradients;
}

int64_t GradientModel::step_bytes(const WithGradients& what, const Executor& whole, int threads,
                                  int64_t allocated) {
  const auto memory_of = [](const RangeProgram& program) {
    return Plan::memory_of(program.wide.program, program.plan_options());
  };
  const Halves halves =
      cut(*whole.program(), what.outputs(), what.reached(), whole.ranges(), threads);
  int64_t working_bytes = 0, kept_bytes = 0;
  for (const auto& half : {halves.forward, halves.backward}) {
    const Plan::Memory memory = memory_of(*half);
    working_bytes = std::max(working_bytes, memory.arena_bytes + memory.fresh_bytes);
    kept_bytes += memory.kept_bytes;
  }
  // What operators allocate while they work is the same in the whole program.
  working_bytes += std::max<int64_t>(0, allocated - memory_of(*whole.program()).fresh_bytes);
  int64_t bytes = working_bytes * std::min(threads, whole.ranges()) + kept_bytes * whole.ranges();
  for (const SavedValue& s : halves.saved)
    if (s.of_all) bytes += s.value.bytes();
  for (const Value& v : whole.results()) bytes += v.bytes();
  return bytes;
}

int64_t GradientModel::bytes() const {
  return forward_.bytes() + backward_.bytes() - bytes_of(arenas_);
}

std::string GradientModel::plan_text() const {
  return fmt::format("forward pass that saves {} bytes: {}backward pass: {}", saved_bytes_,
                     forward_.text(), backward_.text());
}

}  // namespace wide
