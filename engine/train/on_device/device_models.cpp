#include "engine/train/on_device/device_models.h"

#include <ATen/ATen.h>

#include "engine/train/optimizer/tensor_step.h"

namespace wide {
namespace {

/// Whether all numbers of a model are finite, `[R]`: x - x is 0 only for finite x.
Tensor finite(const Tensor& rows) { return (rows - rows).sum(1) == 0; }

Tensor flat(const Tensor& wide_tensor) { return wide_tensor.reshape({wide_tensor.size(0), -1}); }

}  // namespace

DeviceModels::DeviceModels(TrainedModels& host, c10::Device device) : host_(host), device_(device) {
  groups_.resize(2);
  groups_[1].decays = false;
  for (size_t j = 0; j < host.trained().size(); ++j) {
    const size_t spec = host.trained()[j];
    groups_[host.kept(spec).decays ? 0 : 1].at.push_back(j);
  }
  std::erase_if(groups_, [](const Group& g) { return g.at.empty(); });
  for (Group& g : groups_) {
    int64_t offset = 0;
    for (const size_t j : g.at) {
      g.offsets.push_back(offset);
      const Tensor& t = host.kept(host.trained()[j]).tensor;
      offset += t.numel() / host.n();
    }
  }
  const Optimizer& formula = host.formula();
  std::vector<double> kept(formula.hyperparameters.size(), 1.0);
  kept[static_cast<size_t>(formula.index("weight_decay"))] = 0;
  without_decay_ = at::tensor(kept, at::TensorOptions().dtype(at::kDouble)).to(device);
}

void DeviceModels::place(Tensor& slot, const Tensor& made) {
  if (slot.defined() && slot.sizes() == made.sizes()) {
    slot.copy_(made);
    return;
  }
  slot = made.to(device_, made.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  ++version_;
}

Tensor DeviceModels::row_of(const Group& group,
                            const std::function<Tensor(size_t spec)>& tensor) const {
  Tensors rows;
  for (const size_t j : group.at)
    rows.push_back(flat(tensor(host_.trained()[j]).narrow(0, 0, count_)));
  return at::cat(rows, 1);
}

void DeviceModels::rows_to_host(const Group& group, const Tensor& rows,
                                const std::function<Tensor(size_t spec)>& tensor) const {
  const Tensor here = rows.cpu();
  for (size_t i = 0; i < group.at.size(); ++i) {
    const Tensor into = tensor(host_.trained()[group.at[i]]).narrow(0, 0, count_);
    const int64_t each = into.numel() / std::max<int64_t>(count_, 1);
    into.copy_(here.narrow(1, group.offsets[i], each).reshape(into.sizes()));
  }
}

void DeviceModels::make_views(Group& g) {
  g.from.clear();
  g.to.clear();
  g.average_from.clear();
  g.average_to.clear();
  for (size_t i = 0; i < g.at.size(); ++i) {
    const size_t spec = host_.trained()[g.at[i]];
    const Tensor to = tensors_[spec].view({count_, -1});
    g.to.push_back(to);
    g.from.push_back(g.parameter.narrow(1, g.offsets[i], to.size(1)));
    if (!g.average.defined()) continue;
    g.average_to.push_back(averages_[spec].view({count_, -1}));
    g.average_from.push_back(g.average.narrow(1, g.offsets[i], to.size(1)));
  }
}

void DeviceModels::upload() {
  const at::NoGradGuard no_grad;
  const int64_t before = version_;
  count_ = static_cast<int64_t>(host_.running().size());
  const auto& specs = host_.specs();
  tensors_.resize(specs.size());
  averages_.resize(specs.size());
  for (size_t k = 0; k < specs.size(); ++k) {
    const TrainedModels::Kept& kept = host_.kept(k);
    place(tensors_[k], (kept.shared ? kept.tensor : kept.tensor.narrow(0, 0, count_)).contiguous());
    if (kept.average.defined()) place(averages_[k], kept.average.narrow(0, 0, count_).contiguous());
  }
  bool frozen = false;
  for (size_t k = 0; k < specs.size(); ++k)
    frozen = frozen || host_.shared(k) ||
             (specs[k].role == Role::parameter &&
              std::ranges::find(host_.trained(), k) == host_.trained().end());
  for (Group& g : groups_) {
    const size_t first = host_.trained()[g.at[0]];
    place(g.parameter, row_of(g, [&](size_t spec) { return host_.kept(spec).tensor; }));
    g.moments.resize(host_.kept(first).moments.size());
    for (size_t m = 0; m < g.moments.size(); ++m)
      if (host_.kept(first).moments[m].defined())
        place(g.moments[m], row_of(g, [&](size_t spec) { return host_.kept(spec).moments[m]; }));
    if (host_.kept(first).average.defined())
      place(g.average, row_of(g, [&](size_t spec) { return host_.kept(spec).average; }));
    make_views(g);
  }
  const Tensor steps = at::empty({count_}, at::kDouble);
  for (int64_t slot = 0; slot < count_; ++slot)
    steps.mutable_data_ptr<double>()[slot] = static_cast<double>(host_.steps_at(slot));
  place(steps_, steps);
  const auto columns = static_cast<int64_t>(host_.formula().hyperparameters.size()) + 2;
  on_host_ = Tensor();
  place(numbers_, at::zeros({count_, columns}, at::kDouble));
  if (frozen && version_ == before) ++version_;
}

void DeviceModels::download() {
  const at::NoGradGuard no_grad;
  for (size_t k = 0; k < tensors_.size(); ++k)
    if (!host_.shared(k) && host_.specs()[k].role == Role::buffer)
      host_.kept(k).tensor.narrow(0, 0, count_).copy_(tensors_[k]);
  for (const Group& g : groups_) {
    rows_to_host(g, g.parameter, [&](size_t spec) { return host_.kept(spec).tensor; });
    for (size_t m = 0; m < g.moments.size(); ++m)
      if (g.moments[m].defined())
        rows_to_host(g, g.moments[m], [&](size_t spec) { return host_.kept(spec).moments[m]; });
    if (g.average.defined())
      rows_to_host(g, g.average, [&](size_t spec) { return host_.kept(spec).average; });
  }
  const Tensor steps = steps_.cpu();
  for (int64_t slot = 0; slot < count_; ++slot)
    host_.steps_at(slot) = static_cast<int64_t>(steps.const_data_ptr<double>()[slot]);
}

Tensor DeviceModels::tensor(size_t k, bool averaged) const {
  return averaged && averages_[k].defined() ? averages_[k] : tensors_[k];
}

void DeviceModels::spread_averages() {
  const at::NoGradGuard no_grad;
  for (const Group& g : groups_)
    if (g.average.defined()) at::_foreach_copy_(g.average_to, g.average_from);
}

void DeviceModels::set_numbers(double factor) {
  const auto& hyper = host_.formula().hyperparameters;
  const auto columns = static_cast<int64_t>(hyper.size()) + 2;
  const Tensor now = at::empty({count_, columns}, at::kDouble);
  auto* to = now.mutable_data_ptr<double>();
  for (int64_t slot = 0; slot < count_; ++slot) {
    const int64_t model = host_.model_at(slot);
    *to = host_.hyper(hyper[0].name, model) * factor;
    for (size_t h = 1; h < hyper.size(); ++h) to[h] = host_.hyper(hyper[h].name, model);
    to += hyper.size();
    *to++ = host_.hyper("clip", model);
    *to++ = host_.hyper("ema", model);
  }
  if (host_.any("clip") != clips_) {
    clips_ = host_.any("clip");
    ++version_;
  }
  if (on_host_.defined() && on_host_.equal(now)) return;
  on_host_ = now;
  numbers_.copy_(now);
}

/// A mask of the numbers of a group's rows that are written.
Tensor DeviceModels::kept_by(const Group& g, const DeviceStep& made, const Tensor& fine) const {
  bool all = true;
  for (const size_t j : g.at) all = all && made.gradients[j].defined();
  if (all) return fine.unsqueeze(1);
  Tensors reached;
  for (size_t i = 0; i < g.at.size(); ++i)
    reached.push_back(
        at::full({g.from[i].size(1)}, made.gradients[g.at[i]].defined(), fine.options()));
  return fine.unsqueeze(1) & at::cat(reached);
}

void DeviceModels::step(const DeviceStep& made, const Tensor& active, const Tensor& outcome) {
  const at::NoGradGuard no_grad;
  const Optimizer& formula = host_.formula();
  const auto hypers = static_cast<int64_t>(formula.hyperparameters.size());
  const Tensor hyper = numbers_.narrow(1, 0, hypers), next = steps_ + 1;
  Tensor fine = made.loss.isfinite() & active;
  Tensors gradients;
  for (const Group& g : groups_) {
    Tensors rows;
    for (size_t i = 0; i < g.at.size(); ++i) {
      const Tensor& gradient = made.gradients[g.at[i]];
      rows.push_back(gradient.defined() ? flat(gradient) : at::zeros_like(g.to[i]));
    }
    gradients.push_back(at::cat(rows, 1));
  }
  Tensors real;
  for (const auto& [k, value] : made.buffers)
    if (value.is_floating_point() && value.numel() > 0) real.push_back(flat(value));
  if (!real.empty()) fine = fine & finite(at::cat(real, 1));
  if (clips_) {
    const Tensor clip = numbers_.select(1, hypers);
    Tensors norms;
    for (const Tensor& g : gradients)
      norms.push_back(at::linalg_vector_norm(g, 2, at::IntArrayRef{1}, false, at::kDouble));
    const Tensor norm = at::stack(norms).norm(2, at::IntArrayRef{0});
    const Tensor scale =
        at::where(clip > 0, (clip / (norm + 1e-6)).clamp_max(1), at::ones_like(clip));
    for (Tensor& g : gradients) g = g * scale.to(g.scalar_type()).unsqueeze(1);
  }
  std::vector<Tensors> stepped;
  for (size_t k = 0; k < groups_.size(); ++k) {
    const Group& g = groups_[k];
    TensorStep s{.parameter = g.parameter,
                 .gradient = gradients[k],
                 .hyper = g.decays ? hyper : hyper * without_decay_,
                 .steps = next};
    for (const Tensor& m : g.moments)
      if (m.defined()) s.state.push_back(m);
    stepped.push_back(formula.step_tensors(s));
    // A gradient that is not finite makes a parameter or a moment not finite.
    for (const Tensor& t : stepped.back()) fine = fine & finite(t);
  }
  for (size_t k = 0; k < groups_.size(); ++k) {
    const Group& g = groups_[k];
    const Tensor kept = kept_by(g, made, fine);
    size_t next_made = 0;
    const auto write = [&](const Tensor& into, const Tensor& from) {
      into.copy_(at::where(kept, from, into));
    };
    write(g.parameter, stepped[k][next_made++]);
    for (const Tensor& m : g.moments)
      if (m.defined()) write(m, stepped[k][next_made++]);
    at::_foreach_copy_(g.to, g.from);
    if (!g.average.defined()) continue;
    const Tensor ema = numbers_.select(1, hypers + 1).unsqueeze(1);
    const auto type = g.average.scalar_type();
    const Tensor mixed = ema.to(type) * g.average + at::rsub(ema, 1).to(type) * g.parameter;
    write(g.average, at::where(ema == 0, g.parameter, mixed));
  }
  for (const auto& [k, value] : made.buffers) {
    std::vector<int64_t> sizes(static_cast<size_t>(value.dim()), 1);
    sizes[0] = count_;
    tensors_[k].copy_(at::where(fine.view(sizes), value, tensors_[k]));
  }
  const int64_t with = formula.counted_with();
  steps_.add_((with < 0 ? fine : fine & (hyper.select(1, with) != 0)).to(at::kDouble));
  outcome.copy_(at::stack({made.loss.to(at::kDouble), fine.to(at::kDouble)}));
}

}  // namespace wide
