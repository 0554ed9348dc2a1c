#include "tests/device/simulated/backend.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "engine/error.h"

namespace wide::simulated {
namespace {

class DeviceMemoryAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, kDevice};
    auto* data = reinterpret_cast<void*>(Streams::get().allocate(bytes));
    return {data, data, &release, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    const auto begin = [](const void* at) { return reinterpret_cast<uintptr_t>(at); };
    Streams::get().launch({"copy_data",
                           {{begin(from), begin(from) + bytes, false, "copy_data source"},
                            {begin(to), begin(to) + bytes, true, "copy_data target"}},
                           [=](const Draw&) {
                             std::memcpy(Memory::get().shadow(to), Memory::get().shadow(from),
                                         bytes);
                           }});
  }

 private:
  static void release(void* data) { Streams::get().free(reinterpret_cast<uintptr_t>(data)); }
};

using Event = std::shared_ptr<DeviceEvent>;

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDevice.type(); }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device) const override { return stream_of(Streams::current()); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream_of(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    return stream_of(Streams::get().from_pool());
  }
  c10::Stream getNewStream(c10::Device, int) const override {
    return stream_of(Streams::get().from_pool());
  }
  c10::Stream exchangeStream(c10::Stream to) const override {
    return stream_of(Streams::exchange(to.id()));
  }
  bool queryStream(const c10::Stream& of) const override { return Streams::get().idle(of.id()); }
  void synchronizeStream(const c10::Stream& of) const override {
    Streams::get().synchronize(of.id());
  }
  void synchronizeDevice(c10::DeviceIndex) const override { Streams::get().synchronize(); }

  void record(void** event, const c10::Stream& on, c10::DeviceIndex,
              c10::EventFlag) const override {
    if (!*event) *event = new Event(std::make_shared<DeviceEvent>());
    Streams::get().record(at(*event), on.id());
  }
  void block(void* event, const c10::Stream& on) const override {
    if (event) Streams::get().wait(at(event), on.id());
  }
  bool queryEvent(void* event) const override { return !event || Streams::get().query(at(event)); }
  void synchronizeEvent(void* event) const override {
    if (event) Streams::get().synchronize(at(event));
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    return (at(to)->ns - at(from)->ns) * 1e-6;
  }

 private:
  static const Event& at(void* event) { return *static_cast<Event*>(event); }
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return default_generator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::Generator(c10::make_intrusive<DeviceGenerator>());
  }
  at::Device getDeviceFromPtr(void*) const override { return kDevice; }
};

}  // namespace

c10::Allocator* device_allocator() {
  static auto* instance = new DeviceMemoryAllocator;
  return instance;
}

at::Tensor empty_on_device(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  return at::Tensor(
      at::detail::empty_strided_generic(sizes, strides, device_allocator(),
                                        c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype));
}

at::Tensor shadow_of(const at::Tensor& tensor) {
  const auto options = at::TensorOptions().dtype(tensor.scalar_type());
  const void* data = tensor.numel() > 0 ? tensor.const_data_ptr() : nullptr;
  at::Tensor shadow =
      data ? at::from_blob(Memory::get().shadow(data), tensor.sizes(), tensor.strides(), options)
           : at::empty_strided(tensor.sizes(), tensor.strides(), options);
  if (tensor.is_conj()) shadow._set_conj(true);
  if (tensor.is_neg()) shadow._set_neg(true);
  return shadow;
}

Access access_of(const at::Tensor& tensor, bool write, std::string what) {
  if (tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  return {begin, begin + static_cast<size_t>(last + 1) * tensor.element_size(), write,
          std::move(what)};
}

void install() {
  static const bool once = [] {
    c10::register_privateuse1_backend("simulated");
    c10::SetAllocator(kDevice.type(), device_allocator());
    c10::impl::registerDeviceGuard(kDevice.type(), new Guard);
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1,
                                       __FILE__, __LINE__);
    register_memory_operators(*library);
    register_operators(*library);
    // Without this PyTorch would copy to a temporary of the target, whose conjugation is pending.
    for (const auto key : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}) {
      auto* pending = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
      pending->impl("_copy_from", torch::CppFunction::makeFallthrough());
    }
    register_runtime();
    return true;
  }();
  WIDE_ASSERT(once, "not installed");
}

}  // namespace wide::simulated
