// aten::convolution with its weight packed once by oneDNN, and a relu after it.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "engine/lower/plan/operator_traits.h"
#include "engine/machine/clock.h"
#include "engine/machine/threads.h"

namespace wide::packed_convolution_kernel {

namespace {

double median_ns(const std::function<void()>& call) {
  call();
  std::vector<double> samples;
  for (int i = 0; i < 5; ++i) {
    const double start = now_ns();
    call();
    samples.push_back(now_ns() - start);
  }
  std::nth_element(samples.begin(), samples.begin() + 2, samples.end());
  return samples[2];
}

bool same_strides(const Tensor& t, const Value& v) {
  for (size_t i = 0; i < v.sizes.size(); ++i)
    if (v.sizes[i] != 1 && t.strides()[i] != v.strides[i]) return false;
  return t.sizes() == c10::IntArrayRef(v.sizes);
}

/// A random tensor that leaves the user's random numbers unchanged.
Tensor sample(const Value& v) {
  Tensor t = at::empty_strided(v.sizes, v.strides, at::TensorOptions().dtype(v.dtype));
  return t.normal_(0, 1, at::detail::createCPUGenerator(1));
}

std::optional<PackedCall> pack_convolution(const PackRequest& request) {
  const Node& node = request.node;
  const Value& input = request.input;
  const Tensor &weight = request.weight, &bias = request.bias;
  const std::string& activation = request.activation;
  // aten::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding,
  // groups)
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto op = dispatcher.findSchema({"mkldnn::_convolution_pointwise", ""});
  const auto reorder = dispatcher.findSchema({"mkldnn::_reorder_convolution_weight", ""});
  if (!op || !reorder || input.dtype != at::kFloat || !weight.device().is_cpu() ||
      node.arguments[6].constant.toBool() || input.sizes.size() < 4)
    return std::nullopt;
  const IValue stride = node.arguments[3].constant, padding = node.arguments[4].constant,
               dilation = node.arguments[5].constant, groups = node.arguments[8].constant;
  PackedCall packed{*op, {}, {}, 0, 0};
  packed.pack = [=, sizes = input.sizes](const Tensor& w) {
    Stack stack{w, padding, stride, dilation, groups, IValue(sizes)};
    reorder->callBoxed(&stack);
    return stack[0].toTensor();
  };
  packed.stack = {IValue(),
                  IValue(),
                  IValue(),
                  padding,
                  stride,
                  dilation,
                  groups,
                  activation.empty() ? "none" : activation,
                  c10::List<std::optional<at::Scalar>>(),
                  IValue()};
  try {
    const Tensor x = sample(input), w = packed.pack(weight);
    Stack with_arguments = packed.stack;
    with_arguments[0] = x;
    with_arguments[1] = w;
    with_arguments[2] = bias.defined() ? IValue(bias) : IValue();
    Tensor made;
    auto run_packed = [&] {
      Stack stack = with_arguments;
      op->callBoxed(&stack);
      made = stack[0].toTensor();
    };
    run_packed();
    if (!same_strides(made, request.result)) return std::nullopt;
    auto run_plain = [&] {
      Tensor y = at::convolution(x, weight, bias, stride.toIntVector(), padding.toIntVector(),
                                 dilation.toIntVector(), false, Sizes(input.sizes.size() - 2, 0),
                                 groups.toInt());
      if (activation == "relu") y.relu_();
    };
    auto measure = [&] {
      packed.packed_ns = median_ns(run_packed);
      packed.plain_ns = median_ns(run_plain);
    };
    if (request.serial) {
      run_serial(measure);
    } else {
      measure();
    }
  } catch (const c10::Error&) {  // sizes oneDNN has no implementation for
    return std::nullopt;
  }
  return packed;
}

[[maybe_unused]] const bool registered =
    add_operator_traits({.op = "aten::convolution", .absorbs = {"relu"}, .pack = pack_convolution});

}  // namespace
}  // namespace wide::packed_convolution_kernel
