#include "engine/train/on_device/device_columns.h"

#include <ATen/ATen.h>

#include "engine/device.h"
#include "engine/error.h"

namespace wide {
namespace {

int64_t version_of(const Tensor& t) { return t.is_inference() ? 0 : t._version(); }

/// Row indices of all running models; if models have their own data, into their concatenation.
Tensor rows_of(const BatchColumn& column, const std::vector<int64_t>& running) {
  const Column& c = column.column();
  const int64_t total = c.values.size(c.shared ? 0 : 1), batch = c.rows.size(-1);
  const int64_t lists = column.shared() ? 1 : static_cast<int64_t>(running.size());
  const Tensor made = at::empty({lists * batch}, at::kLong);
  auto* to = made.mutable_data_ptr<int64_t>();
  for (int64_t j = 0; j < lists; ++j) {
    const int64_t model = column.shared() ? 0 : running[static_cast<size_t>(j)];
    const auto* from = c.rows.const_data_ptr<int64_t>() + (c.rows.dim() == 2 ? model * batch : 0);
    for (int64_t i = 0; i < batch; ++i) {
      if (from[i] < 0 || from[i] >= total)
        fail("[train] rows of {}: got {}, expected 0 to {}; try an index of the data",
             column.name(), from[i], total - 1);
      *to++ = from[i] + (c.shared ? 0 : model * total);
    }
  }
  return made;
}

}  // namespace

/// The data on the device; undefined if they would take more than half of its free memory.
Tensor DeviceColumns::held(const Tensor& values) {
  const auto unused = [&](const auto& one) {
    return one.second.host.storage().use_count() == 1;  // the caller has released them
  };
  std::erase_if(held_, unused);
  Held& h = held_[values.const_data_ptr()];
  const bool known = h.host.defined() && h.host.sizes() == values.sizes() &&
                     h.host.scalar_type() == values.scalar_type() &&
                     h.version == version_of(values);
  if (known) return h.device;
  h = {values, {}, version_of(values)};
  const auto memory = device_memory(device_);
  if (!memory || static_cast<int64_t>(values.nbytes()) <= memory->free / 2)
    h.device = values.to(device_);
  return h.device;
}

void DeviceColumns::fill(const BatchColumn& column, const std::vector<int64_t>& running,
                         const Tensor& slot) {
  const at::NoGradGuard no_grad;
  const Column& c = column.column();
  if (c.rows.defined() && !c.prepare) {
    if (const Tensor data = held(c.values); data.defined()) {
      const Tensor rows = rows_of(column, running).to(device_);
      const Tensor from = c.shared ? data : data.flatten(0, 1);
      slot.copy_(from.index_select(0, rows).view(slot.sizes()));
      return;
    }
  }
  const Tensor taken = at::empty(slot.sizes(), at::TensorOptions(slot.scalar_type()));
  if (column.shared())
    column.take(-1, taken);
  else
    for (size_t j = 0; j < running.size(); ++j)
      column.take(running[j], taken.select(0, static_cast<int64_t>(j)));
  slot.copy_(taken);
}

int64_t DeviceColumns::bytes() const {
  int64_t sum = 0;
  for (const auto& [at, h] : held_)
    if (h.device.defined()) sum += static_cast<int64_t>(h.device.nbytes());
  return sum;
}

}  // namespace wide
