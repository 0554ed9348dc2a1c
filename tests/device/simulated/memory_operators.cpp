// Operators that allocate on the device, copy to or from it, or read it on the host.
#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>

#include "tests/device/simulated/backend.h"

namespace wide::simulated {
namespace {

using at::Tensor;

Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>,
             std::optional<at::MemoryFormat> format) {
  return Tensor(at::detail::empty_generic(size, device_allocator(),
                                          c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                          c10::dtype_or_default(dtype), format));
}

Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                     std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                     std::optional<at::Device>, std::optional<bool>) {
  return empty_on_device(size, stride, c10::dtype_or_default(dtype));
}

/// What the device holds now, on the host: for the stream's work the host has to wait.
Tensor on_host(const Tensor& from, const char* what) {
  Streams::get().refuse_in_capture(what);
  const PlainDispatch plain;
  const Tensor shadow = shadow_of(from);
  Tensor staged = at::empty(from.sizes(), shadow.options());
  if (from.numel() == 0) return staged;
  Streams::get().launch(
      {what, {access_of(from, false, what)}, [=](const Draw&) { Tensor(staged).copy_(shadow); }});
  Streams::get().synchronize(Streams::current());
  return staged;
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  if (to.numel() == 0) return to;
  if (to.is_cpu()) {
    const Tensor staged = on_host(from, "a copy to the host");
    to.copy_(staged);
    return to;
  }
  if (from.is_cpu()) Streams::get().refuse_in_capture("a copy from the host");
  const PlainDispatch plain;
  // Memory of the host may change as soon as the call is back.
  const Tensor source = from.is_cpu() ? from.clone() : shadow_of(from);
  const Tensor target = shadow_of(to);
  std::vector<Access> accesses;
  if (!from.is_cpu()) accesses.push_back(access_of(from, false, "aten::copy_ source"));
  accesses.push_back(access_of(to, true, "aten::copy_ target"));
  Streams::get().launch(
      {"aten::copy_", std::move(accesses), [=](const Draw&) { Tensor(target).copy_(source); }});
  return to;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar local_scalar_dense(const Tensor& tensor) {
  return on_host(tensor, "a number read by the host").item();
}

const Tensor& resize(const Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  if (self.sizes() == size) return self;
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  const size_t needed =
      static_cast<size_t>(self.storage_offset() + self.numel()) * self.element_size();
  const c10::Storage& storage = self.storage();
  if (self.numel() == 0 || storage.nbytes() >= needed) return self;
  c10::DataPtr more = device_allocator()->allocate(needed);
  if (storage.nbytes() > 0)
    device_allocator()->copy_data(more.get(), storage.data(), storage.nbytes());
  storage.set_data_ptr_noswap(std::move(more));
  storage.set_nbytes(needed);
  return self;
}

/// Without kernels of its own for attention the device takes the one of separate operators.
int64_t fused_sdp_choice(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&,
                         double, bool, std::optional<double>, bool) {
  return 0;
}

}  // namespace

void register_memory_operators(torch::Library& library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", local_scalar_dense);
  library.impl("resize_", resize);
  library.impl("_fused_sdp_choice", fused_sdp_choice);
}

}  // namespace wide::simulated
