#include "primitives/kernels/pointwise/epilogue.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string>

#include "primitives/kernels/pointwise/chain_block.h"
#include "primitives/kernels/thread_memory.h"

namespace wide {

namespace {

constexpr char kThen[] = " then ";

}  // namespace

KernelEpilogue::KernelEpilogue(c10::string_view activation,
                               const std::optional<at::Tensor>& residual, const at::Tensor& out,
                               c10::string_view pool)
    : out_(out.mutable_data_ptr<float>()), results_(out.numel()) {
  if (residual) residual_ = residual->const_data_ptr<float>();
  relu_ = residual_ == nullptr && activation == "relu";
  if (!relu_) early_ = activations::find(activation);
  if (pool != "none") {
    const std::string text(pool);
    const size_t end = text.find(kThen);
    pool_ = Pooling::parse(text.substr(0, end));
    results_ = results_ / pool_->results() * pool_->plane();
    if (end != std::string::npos) late_ = activations::find(text.substr(end + sizeof kThen - 1));
    // After pooling there are fewer to activate. The result of an empty window is not activated.
    if (!pool_->window.average && !pool_->may_be_empty() && late_ == nullptr && early_ != nullptr &&
        activations::rises(*early_))
      std::swap(early_, late_);
  }
  TORCH_CHECK(!residual || (pool_ ? residual->is_contiguous() && residual->numel() == results_
                                  : residual->sizes() == out.sizes() &&
                                        residual->strides() == out.strides()),
              "wide::epilogue: residual ", residual->sizes(),
              " does not lie as the results of out ", out.sizes());
}

bool pools_planes(const std::string& pool_text, const Value& result) {
  int64_t positions = 1;
  for (size_t k = 3; k < result.sizes.size(); ++k) positions *= result.sizes[k];
  return result.contiguous() && Pooling::parse(pool_text).plane() == positions;
}

float* KernelEpilogue::place(int64_t first, int64_t count) const {
  return pool_ ? kernels::thread_memory<KernelEpilogue>(count) : out_ + first;
}

void KernelEpilogue::run(int64_t first, int64_t count) const {
  float* data = place(first, count);
  run_before_pool(data, first, count);
  if (!pool_) return;
  const int64_t planes = count / pool_->plane();
  float* pooled = out_ + first / pool_->plane() * pool_->results();
  pool_->run(data, planes, pooled);
  run_behind_pool(pooled, planes * pool_->results());
}

void KernelEpilogue::run_before_pool(float* data, int64_t first, int64_t count) const {
  static const chains::Code sum = chains::parse("add x0 x1", 2);
  constexpr int64_t kBlock = 2048;  // elements of results and residual: half of a first-level cache
  if (!before_pool()) return;
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t some = std::min(kBlock, count - at);
    if (residual_ != nullptr) {
      float* const slots[] = {data + at, const_cast<float*>(residual_ + first + at), data + at};
      chains::run_block(sum, slots, static_cast<size_t>(some));
    }
    if (early_ != nullptr) activations::run(*early_, data + at, some);
  }
}

void KernelEpilogue::run_behind_pool(float* data, int64_t count) const {
  if (late_ != nullptr) activations::run(*late_, data, count);
}

}  // namespace wide
