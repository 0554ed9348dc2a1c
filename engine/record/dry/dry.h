#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace wide {

/// Who says what a call's results are like: the operator's meta kernel, which computes nothing, or
/// its own, on zeros, which every operator has and which takes the memory of that call.
enum class Shapes { of_meta_kernels, of_zeros };

/// While it lives, what this thread records computes nothing and takes no memory, or that of one
/// call at a time: results have sizes, strides and a dtype, but no elements. For programs that may
/// not fit.
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

/// Calls what is below `keys`; if `computes_nothing`, instead of its kernels: results without
/// elements of the shapes that the operator's meta kernel gives. Views are real ones; so is what is
/// made of no tensor. Throws Unsupported for an operator that has no meta kernel where those say.
void call_below(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                std::vector<c10::IValue>* stack, bool computes_nothing);

}  // namespace wide
