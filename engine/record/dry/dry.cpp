#include "engine/record/dry/dry.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/strides.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>

#include "engine/error.h"

namespace wide {
namespace {

using at::Tensor;
using c10::IValue;

thread_local bool dry = false;
thread_local Shapes shapes = Shapes::of_meta_kernels;

/// An allocator without memory, for operators that only allocate.
class NoMemory : public c10::Allocator {
 public:
  explicit NoMemory(c10::Device device) : device_(device) {}
  c10::DataPtr allocate(size_t) override { return {nullptr, device_}; }
  void copy_data(void*, const void*, size_t) const override {}

 private:
  c10::Device device_;
};

NoMemory& no_memory(c10::Device device) {
  static std::mutex mutex;  // autograd has a thread for each device
  static std::map<std::string, NoMemory> all;
  const std::lock_guard lock(mutex);
  return all.try_emplace(device.str(), device).first->second;
}

Tensor without_elements(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType dtype,
                        c10::Device device) {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) last += sizes[i] == 0 ? 0 : (sizes[i] - 1) * strides[i];
  const auto bytes = static_cast<size_t>(last + 1) * c10::elementSize(dtype);
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(static_cast<int64_t>(bytes)),
      c10::DataPtr(nullptr, device), &no_memory(device), /*resizable=*/true);
  const auto key = at::TensorOptions().device(device).computeDispatchKey();
  Tensor t = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(dtype));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return t;
}

Tensor to_meta(const Tensor& t) {
  if (!t.defined()) return t;
  Tensor meta = at::empty_strided(t.sizes(), t.strides(), t.options().device(c10::kMeta));
  if (t.unsafeGetTensorImpl()->is_wrapped_number())
    meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

Tensor like_result(const Tensor& t, c10::Device device) {
  return t.defined() ? without_elements(t.sizes(), t.strides(), t.scalar_type(), device) : t;
}

/// Replaces every tensor t of a value, also in lists, by `each(t)`; true if there was any.
template <class Each>
bool replace_tensors(IValue& v, Each each) {
  if (v.isTensor()) {
    if (!v.toTensor().defined()) return false;
    v = each(v.toTensor());
    return true;
  }
  if (!v.isList()) return false;
  auto list = v.toList().copy();
  bool any = false;
  for (size_t i = 0; i < list.size(); ++i)
    if (const IValue e = list.get(i); e.isTensor() && e.toTensor().defined()) {
      list.set(i, each(e.toTensor()));
      any = true;
    }
  if (any) v = list;
  return any;
}

bool is_view(const c10::FunctionSchema& schema) {
  for (const c10::Argument& r : schema.returns())
    if (r.alias_info() && !r.alias_info()->isWrite()) return true;
  return false;
}

// ------------------------------------------- shapes that LibTorch only knows in Python

Tensor embedding_backward(const Tensor& gradient, const Tensor&, c10::SymInt rows, c10::SymInt,
                          bool) {
  return at::empty({rows.expect_int(), gradient.size(-1)}, gradient.options());
}

Tensor picked(const Tensor& t, int64_t axis, const Tensor& index) {
  std::vector<int64_t> sizes = t.sizes().vec();
  if (!sizes.empty()) sizes[static_cast<size_t>(axis < 0 ? axis + t.dim() : axis)] = index.numel();
  return at::empty(sizes, t.options());
}

Tensor both(const Tensor& a, const Tensor& b) {
  return at::empty(at::infer_size(a.sizes(), b.sizes()), a.options().dtype(at::kBool));
}

Tensor chosen(const Tensor& condition, const Tensor& yes, const Tensor& no) {
  const auto sizes = at::infer_size(at::infer_size(condition.sizes(), yes.sizes()), no.sizes());
  return at::empty(sizes, yes.options().dtype(at::result_type(yes, no)));
}

/// Like `t` [B, H, T, d], in memory as [B, T, H, d].
Tensor by_rows(const Tensor& t) {
  return at::empty({t.size(0), t.size(2), t.size(1), t.size(3)}, t.options()).transpose(1, 2);
}

std::tuple<Tensor, Tensor> flash(const Tensor& q, const Tensor&, const Tensor& v, double, bool,
                                 const std::optional<Tensor>&, std::optional<double>) {
  const int64_t b = q.size(0), h = q.size(1), t = q.size(2);
  return {at::empty({b, t, h, v.size(3)}, q.options()).transpose(1, 2),
          at::empty({b, t, h}, q.options()).transpose(1, 2)};
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(const Tensor&, const Tensor& q, const Tensor& k,
                                                  const Tensor& v, const Tensor&, const Tensor&,
                                                  double, bool, const std::optional<Tensor>&,
                                                  std::optional<double>) {
  return {by_rows(q), by_rows(k), by_rows(v)};
}

// GPUs' attention kernel for float32. Rows of the second result are padded to a multiple of 32.
std::tuple<Tensor, Tensor, Tensor, Tensor> efficient(const Tensor& q, const Tensor&,
                                                     const Tensor& v, const std::optional<Tensor>&,
                                                     bool with_sums, double, bool,
                                                     std::optional<double>) {
  const int64_t b = q.size(0), h = q.size(1), t = q.size(2);
  const Tensor state = at::empty({}, q.options().dtype(at::kLong));
  return {at::empty({b, t, h, v.size(3)}, q.options()).transpose(1, 2),
          at::empty({b, h, with_sums ? (t + 31) / 32 * 32 : 0}, q.options().dtype(at::kFloat)),
          state, at::empty_like(state)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(
    const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
    const Tensor&, const Tensor&, const Tensor&, const Tensor&, double, std::array<bool, 4> wanted,
    bool, std::optional<double>) {
  Tensor of_bias;
  if (wanted[3] && bias.defined()) {
    std::vector<int64_t> sizes = bias.sizes().vec();
    sizes.back() = (sizes.back() + 15) / 16 * 16;  // rows are padded here too
    of_bias = at::empty(sizes, bias.options()).narrow(-1, 0, bias.size(-1));
  }
  return {by_rows(q), by_rows(k), by_rows(v), of_bias};
}

/// Zeros for a tensor without elements; other tensors themselves.
Tensor with_elements(const Tensor& t) {
  if (t.storage().data() != nullptr || t.numel() == 0) return t;
  Tensor zeros = at::empty_strided(t.sizes(), t.strides(), t.options()).zero_();
  if (t.unsafeGetTensorImpl()->is_wrapped_number())
    zeros.unsafeGetTensorImpl()->set_wrapped_number(true);
  return zeros;
}

/// Calls the kernel on zeros and drops the elements of its results. A result in the memory of zeros
/// becomes one in the memory of the argument that they replaced.
void call_on_zeros(const c10::OperatorHandle& op, c10::DispatchKeySet keys, size_t base,
                   std::vector<IValue>* stack) {
  std::vector<std::pair<Tensor, Tensor>> stand_ins;  // zeros; the argument they replace
  for (size_t i = base; i < stack->size(); ++i)
    replace_tensors((*stack)[i], [&](const Tensor& t) {
      stand_ins.emplace_back(with_elements(t), t);
      return stand_ins.back().first;
    });
  op.redispatchBoxed(keys, stack);
  for (size_t i = base; i < stack->size(); ++i)
    replace_tensors((*stack)[i], [&](const Tensor& made) {
      for (const auto& [zeros, original] : stand_ins) {
        if (made.is_same(zeros)) return original;
        if (made.is_alias_of(zeros))
          return at::as_strided(
              original, made.sizes(), made.strides(),
              made.storage_offset() - zeros.storage_offset() + original.storage_offset());
      }
      return like_result(made, made.device());
    });
}

/// Registers shape functions, once, for operators that have none yet.
void add_shapes() {
  static const auto library = [] {
    auto made = std::make_unique<torch::Library>(torch::Library::IMPL, "aten",
                                                 c10::DispatchKey::Meta, __FILE__, __LINE__);
    const auto add = [&](const std::string& name, auto* shape, const std::string& overload = "") {
      const bool has = c10::Dispatcher::singleton()
                           .findSchemaOrThrow(("aten::" + name).c_str(), overload.c_str())
                           .hasKernelForDispatchKey(c10::DispatchKey::Meta);
      if (!has) made->impl((overload.empty() ? name : name + "." + overload).c_str(), shape);
    };
    for (const char* name : {"logical_and", "logical_or", "logical_xor"}) add(name, both);
    add("index_select", picked);
    add("where", chosen, "self");
    add("embedding_dense_backward", embedding_backward);
    add("_scaled_dot_product_flash_attention_for_cpu", flash);
    add("_scaled_dot_product_flash_attention_for_cpu_backward", flash_backward);
    add("_scaled_dot_product_efficient_attention", efficient);
    add("_scaled_dot_product_efficient_attention_backward", efficient_backward);
    return made;
  }();
}

}  // namespace

DryRecording::DryRecording(Shapes of) {
  WIDE_ASSERT(!dry, "dry recordings do not nest");
  add_shapes();
  dry = true;
  shapes = of;
}
DryRecording::~DryRecording() { dry = false; }

bool dry_recording() { return dry; }

Tensor without_elements(c10::IntArrayRef sizes, at::ScalarType dtype, c10::Device device) {
  return without_elements(sizes, c10::contiguous_strides(sizes), dtype, device);
}

void call_below(const c10::OperatorHandle& op, c10::DispatchKeySet keys, std::vector<IValue>* stack,
                bool computes_nothing) {
  if (!computes_nothing) {
    op.redispatchBoxed(keys, stack);
    return;
  }
  const auto& schema = op.schema();
  const size_t base = stack->size() - schema.arguments().size();
  bool any = false;
  c10::Device device = c10::kCPU;  // of the call's results; numbers may lie on the CPU
  std::vector<IValue> meta(stack->begin() + static_cast<ptrdiff_t>(base), stack->end());
  for (IValue& v : meta) {
    any |= replace_tensors(v, [&](const Tensor& t) {
      if (!t.is_cpu()) device = t.device();
      return to_meta(t);
    });
    if (!v.isDevice()) continue;
    device = v.toDevice();
    v = c10::Device(c10::kMeta);
  }
  if (!any || is_view(schema)) {
    op.redispatchBoxed(keys, stack);
    return;
  }
  if (shapes == Shapes::of_zeros) {
    call_on_zeros(op, keys, base, stack);
    return;
  }
  stack->resize(base);
  for (IValue& v : meta) stack->push_back(std::move(v));
  try {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::AutoDispatchSkipFunctionalize plain;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), stack);
  } catch (const c10::NotImplementedError&) {  // the fallback of meta tensors
    throw Unsupported(fmt::format(
        "[{}] dry recording: got an operator without a meta kernel, expected one whose result's "
        "shape is known without computing it; try to record it with its tensors",
        schema.name()));
  }
  for (size_t i = base; i < stack->size(); ++i)
    replace_tensors((*stack)[i], [&](const Tensor& t) { return like_result(t, device); });
}

}  // namespace wide
