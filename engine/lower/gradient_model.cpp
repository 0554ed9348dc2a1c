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
  for (const Tensor& t : tensors) plain.push_back(t.defined() ? in_plain_memory(t.detach()) : t);
  return plain;
}

}  // namespace

Tensor KeptMemory::next(c10::IntArrayRef sizes, const at::TensorOptions& options) {
  for (const Tensor& t : pieces_)
    if (t.storage().use_count() == 1) return t.variable_data();
  if (pieces_.size() >= kMost) pieces_.erase(pieces_.begin());
  pieces_.push_back(empty_to_keep(sizes, options));
  return pieces_.back().variable_data();
}

GradientModel::GradientModel(const std::shared_ptr<WithGradients>& what, const Ensemble& ensemble,
                             const ExecutorOptions& options, const MakeProgram& whole)
    : what_(what),
      n_(ensemble.n),
      shared_(ensemble.shared),
      arenas_(make_arenas(options.threads)),
      forward_(make_forward(ensemble, options, whole)),
      backward_(make_backward(ensemble, options)) {
  const int64_t count = forward_.ranges();
  for (int64_t k = 0; k < count; ++k) {
    const int64_t begin = n_ * k / count, end = n_ * (k + 1) / count;
    range_offset_[begin] = saved_bytes_;
    saved_bytes_ += sizes_.at(end - begin).bytes;
  }
  for (auto& [n, size] : sizes_)
    for (size_t k = 0; k < size.offsets.size(); ++k) {
      const SavedValue& s = size.halves.saved[k];
      if (!s.of_all) continue;
      size.offsets[k] = saved_bytes_;
      saved_bytes_ += up_to_line(s.value.bytes());
    }
  const PerSize& first = sizes_.at(forward_.models_at_a_time());
  const Program& program = first.halves.forward->wide.program;
  const auto add = [&](ValueId id) {
    results_.push_back(program.value(id));
    results_.back().sizes[0] = n_;
  };
  for (size_t k = 0; k < what_->outputs(); ++k) add(program.outputs[k]);
  for (const Update& u : program.updates) add(u.value);
  result_memory_.resize(results_.size());
  gradient_memory_.resize(of().size());
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
    size.halves = cut(*program, what_->outputs(), reached_);
    reads_.resize(std::max(reads_.size(), size.halves.reads.size()));
    for (size_t i = 0; i < size.halves.reads.size(); ++i)
      reads_[i] = reads_[i] || size.halves.reads[i];
    reads_output_.resize(what_->outputs());
    for (const SavedValue& s : size.halves.saved) {
      size.offsets.push_back(size.bytes);
      if (s.output >= 0)
        reads_output_[static_cast<size_t>(s.output)] = true;
      else if (!s.of_all)
        size.bytes += up_to_line(s.value.bytes());
    }
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

char* GradientModel::saved_at(const Tensor& saved, const RangeAt& at, size_t k) const {
  const PerSize& size = sizes_.at(at.n);
  const int64_t range = size.halves.saved[k].of_all ? 0 : range_offset_.at(at.begin);
  return static_cast<char*>(saved.data_ptr()) + range + size.offsets[k];
}

/// Saved value `k` for ranges of n models, which all models share.
Tensor GradientModel::saved_of_all(const Tensor& saved, int64_t n, size_t k) const {
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
  made.saved = saved_memory_.next({saved_bytes_}, at::kByte);
  Tensors results;
  for (size_t k = 0; k < results_.size(); ++k)
    results.push_back(result_memory_[k].next(results_[k].sizes, results_[k].dtype));
  const auto outputs = static_cast<std::ptrdiff_t>(what_->outputs());
  made.outputs.assign(results.begin(), results.begin() + outputs);
  made.updates.assign(results.begin() + outputs, results.end());
  RangeHooks hooks;
  hooks.results = [&](const RangeAt& at) {
    std::vector<void*> out;
    for (const Tensor& t : made.outputs) out.push_back(row(t, at.begin));
    const std::vector<SavedValue>& saved = sizes_.at(at.n).halves.saved;
    for (size_t k = 0; k < saved.size(); ++k)
      if (saved[k].output < 0 && !saved[k].of_all) out.push_back(saved_at(made.saved, at, k));
    for (const Tensor& t : made.updates) out.push_back(row(t, at.begin));
    return out;
  };
  forward_.run(plain, hooks);
  for (const auto& [n, size] : sizes_)
    for (size_t k = 0, asked = 0; k < size.halves.saved.size(); ++k)
      if (size.halves.saved[k].of_all)
        saved_of_all(made.saved, n, k)
            .copy_(forward_.shared_result(n, size.halves.forward->asked[asked++]));
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

Tensors GradientModel::backward(const Tensors& bound, const Tensors& outputs, const Tensor& saved,
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
  Tensors gradients(of().size()), written;
  for (size_t k = 0; k < of().size(); ++k) {
    if (!reached_[k]) continue;
    const Value& v = what_->form().value(what_->form().bound[of()[k]]);
    gradients[k] = gradient_memory_[k].next(wide_sizes(n_, v.sizes), v.dtype);
    written.push_back(gradients[k]);
  }
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
    for (const Tensor& t : written) out.push_back(row(t, at.begin));
    return out;
  };
  backward_.run(all, hooks);
  for (size_t k = 0; k < gradients.size(); ++k)
    if (reached_[k] && shared_[of()[k]]) gradients[k] = sum_of_ranges(gradients[k]);
  for (size_t k = 0; k < gradients.size(); ++k) {
    bool led_to = false;
    for (size_t o = 0; o < cotangents.size(); ++o)
      led_to = led_to || (cotangents[o].defined() && what_->depends(o, k));
    if (!led_to) gradients[k] = Tensor();
  }
  return gradients;
}

int64_t GradientModel::bytes() const {
  return forward_.bytes() + backward_.bytes() - bytes_of(arenas_);
}

std::string GradientModel::plan_text() const {
  return fmt::format("forward pass that saves {} bytes: {}backward pass: {}", saved_bytes_,
                     forward_.text(), backward_.text());
}

}  // namespace wide
