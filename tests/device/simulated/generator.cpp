#include "tests/device/simulated/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>

#include "engine/error.h"
#include "tests/device/simulated/streams.h"

namespace wide::simulated {
namespace {

constexpr size_t kStateBytes = 2 * sizeof(uint64_t);

/// The numbers of a call of its own, whatever its neighbours' are.
uint64_t scrambled(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

DeviceGenerator::DeviceGenerator()
    : GeneratorImpl(kDevice, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void DeviceGenerator::set_current_seed(uint64_t seed) {
  Streams::get().refuse_in_capture("a generator is seeded");
  seed_ = seed;
  offset_ = 0;
}

void DeviceGenerator::set_offset(uint64_t offset) {
  Streams::get().refuse_in_capture("a generator is moved");
  offset_ = offset;
}

uint64_t DeviceGenerator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void DeviceGenerator::set_state(const c10::TensorImpl& state) {
  Streams::get().refuse_in_capture("a generator's state is set");
  WIDE_ASSERT(state.numel() == static_cast<int64_t>(kStateBytes), "not a state of this device");
  const auto* words = static_cast<const uint64_t*>(state.data());
  seed_ = words[0];
  offset_ = words[1];
}

c10::intrusive_ptr<c10::TensorImpl> DeviceGenerator::get_state() const {
  Streams::get().refuse_in_capture("a generator's state is read");
  at::Tensor state = at::empty({static_cast<int64_t>(kStateBytes)}, at::kByte);
  auto* words = static_cast<uint64_t*>(state.data_ptr());
  words[0] = seed_;
  words[1] = offset_;
  return state.getIntrusivePtr();
}

DeviceGenerator* DeviceGenerator::clone_impl() const {
  auto* other = new DeviceGenerator;
  other->seed_ = seed_;
  other->offset_ = offset_;
  return other;
}

const at::Generator& default_generator() {
  static const at::Generator generator(c10::make_intrusive<DeviceGenerator>());
  return generator;
}

at::Generator cpu_generator(uint64_t seed, uint64_t offset) {
  return at::detail::createCPUGenerator(scrambled(scrambled(seed) ^ offset));
}

}  // namespace wide::simulated
