#pragma once
#include <ATen/core/Tensor.h>

#include <mutex>
#include <unordered_map>
#include <vector>

namespace nwide {

/// Buffers whose values have the gradient history of an earlier call, as those of a recurrent
/// network that keeps its state in a buffer. PyTorch's gradients go on through them into that call;
/// a wide module's end with a call. A buffer that its owner writes to, which changes its version,
/// or replaces is none of them any more.
class Carried {
 public:
  bool holds(const at::Tensor& buffer);
  /// Positions of those among a call's weights.
  std::vector<size_t> among(const std::vector<at::Tensor>& weights);
  /// After that call, as compiling raises the versions of weights without changing them.
  void keep(const std::vector<at::Tensor>& weights, const std::vector<size_t>& held);
  void set(const at::Tensor& buffer, bool carried);

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::TensorImpl> buffer;  // its address is not used again meanwhile
    uint32_t version = 0;
  };
  std::mutex mutex_;
  std::unordered_map<const c10::TensorImpl*, Entry> all_;
};

/// Those of the process.
Carried& carried();

}  // namespace nwide
