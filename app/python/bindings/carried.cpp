#include "app/python/bindings/carried.h"

namespace nwide {
namespace {

uint32_t version_of(const at::Tensor& t) {
  return t.unsafeGetTensorImpl()->version_counter().current_version();
}

}  // namespace

bool Carried::holds(const at::Tensor& buffer) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(buffer.unsafeGetTensorImpl());
  return found != all_.end() && found->second.version == version_of(buffer);
}

std::vector<size_t> Carried::among(const std::vector<at::Tensor>& weights) {
  std::vector<size_t> held;
  for (size_t k = 0; k < weights.size(); ++k)
    if (!weights[k].requires_grad() && holds(weights[k])) held.push_back(k);
  return held;
}

void Carried::keep(const std::vector<at::Tensor>& weights, const std::vector<size_t>& held) {
  for (const size_t k : held) set(weights[k], true);
}

void Carried::set(const at::Tensor& buffer, bool carried) {
  const std::lock_guard lock(mutex_);
  all_.erase(buffer.unsafeGetTensorImpl());
  if (!carried) return;
  std::erase_if(all_, [](const auto& entry) { return entry.second.buffer.expired(); });
  all_.try_emplace(buffer.unsafeGetTensorImpl(),
                   Entry{c10::weak_intrusive_ptr<c10::TensorImpl>(buffer.getIntrusivePtr()),
                         version_of(buffer)});
}

Carried& carried() {
  static Carried all;
  return all;
}

}  // namespace nwide
