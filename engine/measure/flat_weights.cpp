#include "engine/measure/flat_weights.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>

#include <map>

namespace wide {
namespace {

constexpr const char* kFlatten = "aten::_cudnn_rnn_flatten_weight";

thread_local Tensors* tensors_to_move = nullptr;

/// cuDNN's number of a kind of cell; nullopt for other calls.
std::optional<int64_t> cudnn_mode(const std::string& name) {
  static const std::map<std::string, int64_t> all = {
      {"aten::rnn_relu", 0}, {"aten::rnn_tanh", 1}, {"aten::lstm", 2}, {"aten::gru", 3}};
  const auto found = all.find(name);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

/// Flattens the call's weights: x, hx, parameters, has_biases, layers, dropout, train,
/// bidirectional, batch_first.
void flatten(int64_t mode, c10::ArrayRef<const c10::IValue> call) {
  const Tensors weights = call[2].toTensorVector();
  const bool biases = call[3].toBool(), bidirectional = call[7].toBool();
  const int64_t layers = call[4].toInt(), each = biases ? 4 : 2;
  const auto expected = static_cast<size_t>(layers * (bidirectional ? 2 : 1) * each);
  if (weights.size() != expected) return;  // projections
  std::vector<std::pair<Tensor*, size_t>> aliases;
  for (Tensor& t : *tensors_to_move)
    for (size_t k = 0; k < weights.size(); ++k)
      if (t.const_data_ptr() == weights[k].const_data_ptr() && t.sizes() == weights[k].sizes() &&
          !t.is_same(weights[k]))
        aliases.emplace_back(&t, k);
  const c10::InferenceMode as_they_were_made(weights.front().is_inference());
  const at::NoGradGuard no_grad;
  at::_cudnn_rnn_flatten_weight(weights, each, call[0].toTensor().size(-1), mode,
                                weights[1].size(1), /*proj_size=*/0, layers, call[8].toBool(),
                                bidirectional);
  for (const auto& [t, k] : aliases) t->set_(weights[k].detach());
}

std::unique_ptr<at::ObserverContext> on_call(const at::RecordFunction& call) {
  const auto mode = cudnn_mode(call.name());
  // In the overload for packed sequences the third argument is a tensor, not a list.
  if (mode && call.inputs().size() == 9 && call.inputs()[2].isTensorList())
    flatten(*mode, call.inputs());
  return nullptr;
}

bool can_flatten(c10::Device device) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(kFlatten, "");
  const auto key = at::TensorOptions().device(device).computeDispatchKey();
  return !device.is_cpu() && op.hasKernelForDispatchKey(key);
}

}  // namespace

FlatWeights::FlatWeights(c10::Device device, Tensors own) : own_(std::move(own)) {
  if (!can_flatten(device) || tensors_to_move != nullptr) return;
  tensors_to_move = &own_;
  callback_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(on_call).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

FlatWeights::~FlatWeights() {
  if (callback_ == 0) return;
  at::removeCallback(callback_);
  tensors_to_move = nullptr;
}

}  // namespace wide
