#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace wide {

/// How results' shapes are found: by the operator's meta kernel, which computes nothing, or by its
/// own kernel on zeros, which all operators have and which needs that call's memory.
enum class Shapes { of_meta_kernels, of_zeros };

/// While it exists, recordings of this thread compute nothing and use no memory (or one call's at a
/// time): results have sizes, strides and a dtype, but no elements. For programs that may not fit.
class DryRecording {
 public:
  explicit DryRecording(Shapes shapes = Shapes::of_meta_kernels);
  ~DryRecording();
  DryRecording(const DryRecording&) = delete;
  DryRecording& operator=(const DryRecording&) = delete;
};

/// Whether recordings that begin now are dry.
bool dry_recording();

/// A contiguous tensor without elements to read, of any size.
at::Tensor without_elements(c10::IntArrayRef sizes, at::ScalarType dtype,
                            c10::Device device = c10::kCPU);

/// Calls the operator below `keys`; if `computes_nothing`, gives results without elements, with
/// shapes by the operator's meta kernel. Views, and results made from no tensor, are real. Throws
/// Unsupported if meta kernels are used and the operator has none.
void call_below(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                std::vector<c10::IValue>* stack, bool computes_nothing);

}  // namespace wide
