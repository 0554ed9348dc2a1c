#include "engine/model/packing.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/error.h"
#include "engine/machine/large_pages.h"

namespace wide {

Tensors pack(const std::vector<Tensors>& separate, const std::vector<bool>& shared,
             const Tensors& into) {
  if (separate.empty()) fail("[pack] models: got none, expected at least one; try one for each");
  Tensors wide;
  const size_t count = separate.front().size();
  for (size_t k = 0; k < count; ++k) {
    const Tensor& first = separate.front()[k];
    if (k < shared.size() && shared[k]) {
      wide.push_back(first);
      continue;
    }
    Tensors column;
    for (size_t i = 0; i < separate.size(); ++i) {
      if (separate[i].size() != count)
        fail("[pack] tensors of model {}: got {}, expected {} as of model 0; try the same for all",
             i, separate[i].size(), count);
      const Tensor& t = separate[i][k];
      if (t.sizes() != first.sizes() || t.scalar_type() != first.scalar_type())
        fail(
            "[pack] tensor {} of model {}: got {}, expected {} as of model 0; try models of one "
            "architecture",
            k, i, describe(t).shape_text(), describe(first).shape_text());
      column.push_back(t);
    }
    const auto differentiable = [](const Tensor& t) { return t.requires_grad(); };
    if (at::GradMode::is_enabled() && std::ranges::any_of(column, differentiable)) {
      wide.push_back(at::stack(column));  // gradients flow through stack, not into given memory
      continue;
    }
    Sizes sizes = first.sizes().vec();
    sizes.insert(sizes.begin(), static_cast<int64_t>(column.size()));
    const bool fits = k < into.size() && into[k].sizes() == sizes && into[k].is_contiguous() &&
                      into[k].scalar_type() == first.scalar_type() &&
                      into[k].device() == first.device();
    Tensor stacked = fits ? into[k] : empty_to_keep(sizes, first.options());
    wide.push_back(at::stack_out(stacked, column));
  }
  return wide;
}

std::vector<Tensors> unpack(const Tensors& wide, int64_t n) {
  std::vector<Tensors> separate(static_cast<size_t>(n));
  for (const Tensor& t : wide) {
    const Tensors each = t.unbind(0);
    for (size_t i = 0; i < separate.size(); ++i) separate[i].push_back(each.at(i));
  }
  return separate;
}

Tensor to_channels(const Tensors& each) {
  if (each.empty()) fail("[to_channels] models: got none, expected at least one; try one each");
  const Tensor& first = each.front();
  for (size_t i = 0; i < each.size(); ++i)
    if (each[i].dim() < 2 || each[i].sizes() != first.sizes() ||
        each[i].scalar_type() != first.scalar_type())
      fail(
          "[to_channels] tensor of model {}: got {}, expected [B, C, ...], the same for all; try "
          "tensors like {}",
          i, describe(each[i]).shape_text(), describe(first).shape_text());
  return at::cat(each, 1);
}

Tensors from_channels(const Tensor& packed, int64_t n) {
  if (packed.dim() < 2 || n < 1 || packed.size(1) % n != 0)
    fail(
        "[from_channels] channels: got {} for {} models, expected [B, N*C, ...]; try "
        "to_channels",
        describe(packed).shape_text(), n);
  const int64_t channels = packed.size(1) / n;
  Tensors each;
  for (int64_t i = 0; i < n; ++i) each.push_back(packed.narrow(1, i * channels, channels));
  return each;
}

}  // namespace wide
