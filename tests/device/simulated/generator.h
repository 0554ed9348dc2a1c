#pragma once
#include <ATen/core/Generator.h>

#include <vector>

namespace wide::simulated {

/// Random numbers as a GPU makes them: from a seed and an offset that grows by each call. What a
/// call draws is settled when it is given out; in a graph, at each replay.
class DeviceGenerator final : public c10::GeneratorImpl {
 public:
  DeviceGenerator();

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  /// The offset of one more call.
  uint64_t take() { return offset_++; }
  void take(uint64_t calls) { offset_ += calls; }

 private:
  DeviceGenerator* clone_impl() const override;
  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
};

/// The generator that calls draw from which are given none.
const at::Generator& default_generator();

/// What a call draws from on the CPU.
at::Generator cpu_generator(uint64_t seed, uint64_t offset);

}  // namespace wide::simulated
