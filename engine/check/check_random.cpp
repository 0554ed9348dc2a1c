#include "engine/check/check_random.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/check/check_detail.h"
#include "engine/check/distribution.h"
#include "engine/device.h"
#include "engine/error.h"

namespace wide::detail {
namespace {

constexpr int kSeeds = 24;
// A permuted ensemble has the same distributions in another order, so half of a candidate's draws
// are taken from it. Other models' distributions differ so much that half the seeds suffice to
// detect them. Means of half the seeds are less exact, so their bound is wider (same risk).
constexpr int kOrderSeeds = kSeeds / 2;
constexpr double kOrderErrors = 9;
constexpr int64_t kMostElements = 4096;  // per output and model, so that draws fit into memory
constexpr uint64_t kCandidateSeed = 1000, kSeparateSeed = 5000, kSameSeed = 9000;

Tensors with_seed(uint64_t seed, c10::Device device, const std::function<Tensors()>& run) {
  seed_random(seed, device);
  return run();
}

/// The elements of each output to compare: all, or the same random choice for every run.
std::vector<Tensor> choose_elements(const Tensors& results) {
  std::vector<Tensor> chosen;
  auto generator = at::detail::createCPUGenerator(1);
  for (const Tensor& result : results) {
    const int64_t elements = result.numel() / std::max<int64_t>(1, result.size(0));
    const Tensor order = at::randperm(elements, generator, at::TensorOptions().dtype(at::kLong));
    chosen.push_back(order.narrow(0, 0, std::min(elements, kMostElements)));
  }
  return chosen;
}

/// The chosen elements of one run, `[N, elements]` in float64 on the CPU.
Tensor pick(const Tensor& result, const Tensor& elements) {
  const int64_t n = std::max<int64_t>(1, result.size(0));
  const Tensor flat = result.reshape({n, result.numel() / n});
  return flat.index_select(1, elements.to(result.device())).cpu().to(at::kDouble);
}

/// Draws of each result, `[seeds, N, elements]`. `first`: the results of the first seed, if known.
Tensors draw(const std::function<Tensors()>& run, c10::Device device, uint64_t first_seed,
             int seeds, const std::vector<Tensor>& elements, const Tensors& first = {}) {
  std::vector<Tensors> runs(elements.size());
  for (int s = 0; s < seeds; ++s) {
    const bool known = s == 0 && !first.empty();
    const Tensors results =
        known ? first : with_seed(first_seed + static_cast<uint64_t>(s), device, run);
    for (size_t k = 0; k < elements.size(); ++k) runs[k].push_back(pick(results[k], elements[k]));
  }
  Tensors drawn;
  for (const Tensors& each : runs) drawn.push_back(at::stack(each));
  return drawn;
}

bool varies(const Tensor& drawn) { return drawn.ne(drawn.narrow(0, 0, 1)).any().item<bool>(); }

/// An ensemble in which every model has model 0's weights and inputs.
Ensemble all_alike(const Ensemble& ensemble) {
  Ensemble alike = ensemble;
  for (size_t k = 0; k < alike.tensors.size(); ++k) {
    if (ensemble.shared[k]) continue;
    const Tensor& tensor = ensemble.tensors[k];
    alike.tensors[k] = tensor.narrow(0, 0, 1).expand_as(tensor).contiguous();
  }
  return alike;
}

/// Finds pairs of models that draw the same random numbers. The models are equal otherwise, so
/// these are pairs whose outputs agree for every seed. Stops as soon as no pair is left.
std::vector<std::pair<int64_t, int64_t>> models_that_share(const std::function<Tensors()>& run,
                                                           c10::Device device, int64_t n,
                                                           size_t output,
                                                           const std::vector<Tensor>& elements,
                                                           double tolerance) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) pairs.emplace_back(i, j);
  // Compares projections on a random direction, as the number of pairs grows with N squared.
  auto generator = at::detail::createCPUGenerator(2);
  const Tensor direction =
      at::randn({elements[output].numel()}, generator, at::TensorOptions().dtype(at::kDouble));
  for (int s = 0; s < kSeeds && !pairs.empty(); ++s) {
    const Tensors results = with_seed(kSameSeed + static_cast<uint64_t>(s), device, run);
    const Tensor picked = pick(results[output], elements[output]);
    const Tensor signature = at::matmul(picked, direction);
    const double scale = at::matmul(picked.abs(), direction.abs()).max().item<double>();
    const double* value = signature.const_data_ptr<double>();
    // One differing draw among many elements changes the sum little, but more than rounding does.
    const double same = std::min(tolerance, 1e-6) * scale;
    std::erase_if(pairs,
                  [&](const auto& p) { return std::abs(value[p.first] - value[p.second]) > same; });
  }
  return pairs;
}

class RandomCheck {
 public:
  RandomCheck(const Program& single, const Ensemble& ensemble, const WideFunction& candidate,
              double tolerance, bool masks_shared, const Expected& expected)
      : ensemble_(ensemble),
        permuted_(expected.permuted),
        candidate_(candidate),
        names_(result_names(single)),
        masks_shared_(masks_shared),
        elements_(expected.draws->elements),
        first_(expected.draws->first),
        separate_(expected.draws->drawn) {
    result_.tolerance = tolerance;
  }

  Correctness run() {
    for (const Tensor& t : seeded(kCandidateSeed, ensemble_)) got_.push_back(t.clone());
    fail_with(compare_shapes(names_, got_, first_));
    if (!result_.failure.empty()) return result_;
    check_seeds();
    check_distributions();
    check_isolation();
    fail_with(disorder_);
    check_masks();
    result_.note +=
        fmt::format("{}by statistics over {} seeds; masks {}", result_.note.empty() ? "" : "; ",
                    kSeeds, masks_shared_ ? "shared" : "independent");
    result_.pass = result_.failure.empty();
    return result_;
  }

 private:
  // Only the first failure is reported; "" is none.
  void fail_with(const std::string& text) {
    if (result_.failure.empty()) result_.failure = text;
  }
  Tensors seeded(uint64_t seed, const Ensemble& ensemble) {
    return with_seed(seed, ensemble.device(), [&] { return candidate_(ensemble); });
  }

  void check_seeds() {
    const Tensors again = seeded(kCandidateSeed, ensemble_);
    for (size_t k = 0; k < got_.size(); ++k)
      if (!same_bits(got_[k], again[k])) fail_with(names_[k] + ": the same seed, another result");
    draw_all(again);
    for (size_t k = 0; k < drawn_.size(); ++k)
      for (int64_t i = 0; i < ensemble_.n; ++i)
        if (varies(separate_[k].select(1, i)) && !varies(drawn_[k].select(1, i)))
          fail_with(fmt::format("{} of model {}: the same for every seed", names_[k], i));
  }

  /// Draws all seeds of all results; the second half from permuted models, reordered afterwards.
  void draw_all(const Tensors& first) {
    const auto plain = [&] { return candidate_(ensemble_); };
    const c10::Device device = ensemble_.device();
    if (ensemble_.n < 2) {
      drawn_ = draw(plain, device, kCandidateSeed, kSeeds, elements_, first);
      return;
    }
    drawn_ = draw(plain, device, kCandidateSeed, kSeeds - kOrderSeeds, elements_, first);
    const Tensors permuted = draw([&] { return candidate_(permuted_); }, device,
                                  kCandidateSeed + kSeeds - kOrderSeeds, kOrderSeeds, elements_);
    const Tensor back = rotation(ensemble_.n).argsort();
    for (size_t k = 0; k < drawn_.size(); ++k)
      drawn_[k] = at::cat({drawn_[k], permuted[k].index_select(1, back)});
  }

  void check_distributions() {
    check_order();
    for (size_t k = 0; k < drawn_.size(); ++k) {
      if (elements_[k].numel() == 0) continue;
      const Tensor &got = drawn_[k], &expected = separate_[k];
      result_.max_rel = std::max(result_.max_rel, error_of_constants(got, expected));
      const std::string text = compare_distributions(got, expected, result_.tolerance, true);
      if (text.empty()) continue;
      // If the models in their own order are right, the order is the failure.
      const bool blame = !disorder_.empty() && difference_of_half(k, 0).empty();
      fail_with(blame ? disorder_ : names_[k] + text);
    }
  }

  std::string difference_of_half(size_t k, int64_t first_seed) const {
    return compare_distributions(drawn_[k].narrow(0, first_seed, kOrderSeeds), separate_[k],
                                 result_.tolerance, false, kOrderErrors);
  }

  void check_isolation() {
    result_.isolated = true;
    if (ensemble_.n < 2) return;
    for (int64_t i : models_to_poison(ensemble_.n)) {
      std::string what = "another model changes for the same seed";
      try {
        if (same_bits_but(seeded(kCandidateSeed, Poisoned(ensemble_, i).ensemble()), got_, i))
          continue;
      } catch (const std::exception& error) {
        what = error.what();
      }
      result_.isolated = false;
      fail_with(fmt::format("not isolated, with NaN in model {}: {}", i, what));
      return;
    }
  }

  void check_order() {
    result_.ordered = true;
    if (ensemble_.n < 2) return;
    for (size_t k = 0; k < drawn_.size(); ++k) {
      if (elements_[k].numel() == 0) continue;
      const std::string difference = difference_of_half(k, kSeeds - kOrderSeeds);
      if (difference.empty()) continue;
      result_.ordered = false;
      if (disorder_.empty()) disorder_ = "models permuted, " + names_[k] + difference;
    }
  }

  void check_masks() {
    if (ensemble_.n < 2) return;
    const Ensemble alike = all_alike(ensemble_);
    const auto all_pairs = static_cast<size_t>(ensemble_.n * (ensemble_.n - 1) / 2);
    for (size_t k = 0; k < separate_.size(); ++k) {
      if (!varies(separate_[k])) continue;
      const auto pairs = models_that_share([&] { return candidate_(alike); }, alike.device(),
                                           ensemble_.n, k, elements_, result_.tolerance);
      if (masks_shared_ && pairs.size() != all_pairs)
        fail_with(names_[k] + ": masks differ between models, declared shared");
      if (!masks_shared_ && !pairs.empty())
        fail_with(fmt::format("{}: models {} and {} share their mask, expected independent ones",
                              names_[k], pairs.front().first, pairs.front().second));
    }
  }

  const Ensemble &ensemble_, &permuted_;
  const WideFunction& candidate_;
  std::vector<std::string> names_;
  bool masks_shared_;
  const std::vector<Tensor>& elements_;
  const Tensors &first_, &separate_;
  Tensors drawn_;         // by result: `[seeds, N, elements]`
  Tensors got_;           // with kCandidateSeed
  std::string disorder_;  // the first difference of permuted models
  Correctness result_;
};

}  // namespace

std::shared_ptr<const SeparateDraws> draw_separate(const Program& single,
                                                   const Ensemble& ensemble) {
  const at::NoGradGuard guard;
  const auto run = [&] { return separate(single, ensemble); };
  auto made = std::make_shared<SeparateDraws>();
  const c10::Device device = ensemble.device();
  made->first = with_seed(kSeparateSeed, device, run);
  made->elements = choose_elements(made->first);
  made->drawn = draw(run, device, kSeparateSeed, kSeeds, made->elements, made->first);
  if (std::ranges::none_of(made->drawn, varies)) return nullptr;
  return made;
}

Correctness check_random(const Program& single, const Ensemble& ensemble,
                         const WideFunction& candidate, double tolerance, bool masks_shared,
                         const Expected& expected) {
  const at::NoGradGuard guard;
  return RandomCheck(single, ensemble, candidate, tolerance, masks_shared, expected).run();
}

}  // namespace wide::detail
