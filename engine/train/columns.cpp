#include "engine/train/columns.h"

#include <ATen/ATen.h>

#include <cstring>

#include "engine/error.h"

namespace wide {
namespace {

void take_rows(const std::string& name, const Tensor& from, const Tensor& rows,
               const Tensor& into) {
  const auto* row = rows.const_data_ptr<int64_t>();
  const auto* base = static_cast<const char*>(from.const_data_ptr());
  auto* to = static_cast<char*>(into.mutable_data_ptr());
  const int64_t count = rows.numel(), total = from.size(0);
  const auto bytes =
      static_cast<size_t>(into.nbytes()) / static_cast<size_t>(std::max<int64_t>(count, 1));
  for (int64_t i = 0; i < count; ++i, to += bytes) {
    if (row[i] < 0 || row[i] >= total)
      fail("[train] rows of {}: got {}, expected 0 to {}; try an index of the data", name, row[i],
           total - 1);
    std::memcpy(to, base + static_cast<size_t>(row[i]) * bytes, bytes);
  }
}

}  // namespace

BatchColumn::BatchColumn(std::string name, Column column, at::ScalarType dtype, int64_t n)
    : name_(std::move(name)), column_(std::move(column)), dtype_(dtype) {
  Column& c = column_;
  if (!c.values.defined()) return;
  const auto text = [](const Tensor& t) { return describe(t).shape_text(); };
  if (!c.values.is_cpu() || c.values.layout() != at::kStrided)
    fail("[train] {}: got {} on {}, expected a dense tensor on the CPU; try .cpu()", name_,
         text(c.values), c.values.device().str());
  const int64_t before = c.shared ? 0 : 1;
  if (c.values.dim() < before + 1 || (!c.shared && c.values.size(0) != n))
    fail("[train] {}: got {}, expected {}; try shared for one of all models", name_, text(c.values),
         c.shared ? "[B, ...]" : fmt::format("[{}, B, ...] for {} models", n, n));
  if (at::isFloatingType(c.values.scalar_type()) && !at::isFloatingType(dtype_))
    fail("[train] {}: got {}, expected whole numbers as {}; try another column", name_,
         text(c.values), c10::toString(dtype_));
  c.values = c.values.contiguous();
  shared_ = c.shared;
  sizes_ = c.values.sizes().slice(static_cast<size_t>(before)).vec();
  if (!c.rows.defined()) return;
  if (c.rows.scalar_type() != at::kLong || c.rows.dim() < 1 || c.rows.dim() > 2 ||
      (c.rows.dim() == 2 && c.rows.size(0) != n))
    fail("[train] rows of {}: got {}, expected int64 [B] or [{}, B]; try one list a model", name_,
         text(c.rows), n);
  c.rows = c.rows.contiguous();
  shared_ = shared_ && c.rows.dim() == 1;
  sizes_[0] = c.rows.size(-1);
}

const void* BatchColumn::in_place(int64_t model) const {
  if (column_.rows.defined() || column_.prepare || column_.values.scalar_type() != dtype_)
    return nullptr;
  const auto* base = static_cast<const char*>(column_.values.const_data_ptr());
  return base + (column_.shared ? 0 : model * stride_bytes());
}

int64_t BatchColumn::stride_bytes() const {
  return column_.shared
             ? 0
             : column_.values.stride(0) * static_cast<int64_t>(column_.values.element_size());
}

void BatchColumn::take(int64_t model, const Tensor& into) const {
  const at::NoGradGuard no_grad;
  const Tensor from = column_.shared ? column_.values : column_.values.select(0, model);
  const bool converts = column_.values.scalar_type() != dtype_;
  Tensor taken = from;
  if (column_.rows.defined() || column_.prepare)
    taken = converts ? at::empty(sizes_, column_.values.options()) : into;
  if (column_.rows.defined())
    take_rows(name_, from, column_.rows.dim() == 2 ? column_.rows.select(0, model) : column_.rows,
              taken);
  else if (column_.prepare)
    taken.copy_(from);
  if (column_.prepare) taken = column_.prepare(model, taken);
  if (!taken.is_same(into)) into.copy_(taken);
}

}  // namespace wide
