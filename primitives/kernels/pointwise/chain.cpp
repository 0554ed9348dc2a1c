#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <array>

#include "engine/lower/plan/operator_traits.h"
#include "primitives/kernels/pointwise/chain_block.h"
#include "primitives/kernels/registration.h"

namespace wide::chain_operator {
namespace {

using at::Tensor;
using chains::Code;

constexpr int64_t kBlock = 1024;  // elements: 4 KB of each slot
constexpr size_t kMostDims = 16;

/// An operand and its strides, in elements, along the dimensions of a Grid.
struct Operand {
  const char* data = nullptr;
  bool boolean = false;
  std::array<int64_t, kMostDims> strides{};
};

/// The elements of a result in memory order, with neighbouring dimensions merged if every operand
/// allows it.
struct Grid {
  std::array<int64_t, kMostDims> sizes{};
  size_t dims = 0;
  std::vector<Operand> operands;

  Grid(c10::ArrayRef<c10::IValue> inputs, const Tensor& out) : operands(inputs.size()) {
    TORCH_CHECK(out.is_non_overlapping_and_dense(), "wide::chain: out ", out.sizes(),
                " has strides ", out.strides(), ", expected it dense");
    std::array<int64_t, kMostDims> order{};
    size_t axes = 0;
    for (int64_t k = 0; k < out.dim(); ++k)
      if (out.size(k) != 1) {
        TORCH_CHECK(axes < kMostDims, "wide::chain: got ", out.dim(), " dimensions");
        order[axes++] = k;
      }
    std::stable_sort(order.begin(), order.begin() + axes,
                     [&](int64_t a, int64_t b) { return out.stride(a) > out.stride(b); });
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& t = inputs[i].toTensor();
      TORCH_CHECK(t.is_cpu() && (t.scalar_type() == at::kFloat || t.scalar_type() == at::kBool) &&
                      t.dim() <= out.dim(),
                  "wide::chain: input ", i, " is ", t.scalar_type(), " ", t.sizes());
      operands[i].data = static_cast<const char*>(t.const_data_ptr());
      operands[i].boolean = t.scalar_type() == at::kBool;
    }
    std::array<int64_t, chains::kMostInputs> next{};
    for (size_t a = 0; a < axes; ++a) {
      const int64_t size = out.size(order[a]);
      bool joins = dims > 0;
      for (size_t i = 0; i < operands.size(); ++i) {
        const Tensor& t = inputs[i].toTensor();
        const int64_t own = order[a] - (out.dim() - t.dim());
        next[i] = own < 0 || t.size(own) == 1 ? 0 : t.stride(own);
        TORCH_CHECK(own < 0 || t.size(own) == 1 || t.size(own) == size, "wide::chain: input ", i,
                    " ", t.sizes(), " does not fit ", out.sizes());
        joins = joins && operands[i].strides[dims - 1] == next[i] * size;
      }
      if (joins)
        sizes[dims - 1] *= size;
      else
        sizes[dims++] = size;
      for (size_t i = 0; i < operands.size(); ++i) operands[i].strides[dims - 1] = next[i];
    }
    if (dims == 0) sizes[dims++] = 1;
  }
};

/// Blocks of a grid: several whole rows of its last dimension, or a part of one.
struct Blocks {
  int64_t inner, rows, outer;       // elements of a row; rows of the next dimension; the rest
  int64_t row_count, column_count;  // size of a block
  int64_t row_blocks, column_blocks;

  explicit Blocks(const Grid& grid)
      : inner(grid.sizes[grid.dims - 1]), rows(grid.dims > 1 ? grid.sizes[grid.dims - 2] : 1) {
    outer = 1;
    for (size_t k = 0; k + 2 < grid.dims; ++k) outer *= grid.sizes[k];
    row_count = std::clamp<int64_t>(kBlock / inner, 1, rows);
    column_count = std::min(inner, kBlock);
    row_blocks = (rows + row_count - 1) / row_count;
    column_blocks = (inner + column_count - 1) / column_count;
  }
  int64_t count() const { return outer * row_blocks * column_blocks; }
};

float element(const Operand& operand, const char* data, int64_t offset) {
  return operand.boolean ? static_cast<float>(data[offset] != 0)
                         : reinterpret_cast<const float*>(data)[offset];
}

/// Copies `rows` rows of `columns` elements of an operand to contiguous memory.
void gather(const Operand& operand, const char* data, int64_t row_stride, int64_t stride,
            int64_t rows, int64_t columns, float* to) {
  const auto* floats = reinterpret_cast<const float*>(data);
  for (int64_t r = 0; r < rows; ++r, to += columns) {
    const int64_t row = r * row_stride;
    if (stride == 0) {
      chains::fill(to, element(operand, data, row), static_cast<size_t>(columns));
    } else if (stride == 1 && !operand.boolean) {
      std::copy_n(floats + row, columns, to);
    } else if (stride == 1) {
      chains::from_truth(reinterpret_cast<const uint8_t*>(data) + row, to,
                         static_cast<size_t>(columns));
    } else if (operand.boolean) {
      for (int64_t c = 0; c < columns; ++c) to[c] = data[row + c * stride] != 0 ? 1.0F : 0.0F;
    } else {
      for (int64_t c = 0; c < columns; ++c) to[c] = floats[row + c * stride];
    }
  }
}

/// One thread's memory for operands that are not read in place, and for registers.
class Scratch {
 public:
  float* slot(size_t k) { return memory_.get() + k * kPitch; }
  void reserve(size_t slots) {
    if (slots <= slots_) return;
    memory_ = hwy::AllocateAligned<float>(slots * kPitch);  // for vectors within cache lines
    slots_ = slots;
  }

 private:
  // Not a power of two: stores to one slot would delay loads from another.
  static constexpr size_t kPitch = kBlock + 48;
  hwy::AlignedFreeUniquePtr<float[]> memory_;
  size_t slots_ = 0;
};

/// Runs blocks [begin, end) of a chain on one thread.
class Run {
 public:
  Run(const Code& code, const Grid& grid, const Blocks& blocks, const Tensor& out)
      : code_(code), grid_(grid), blocks_(blocks), boolean_(out.scalar_type() == at::kBool) {
    out_ = static_cast<char*>(out.mutable_data_ptr());
    thread_local Scratch scratch;
    scratch.reserve(code.slots);
    scratch_ = &scratch;
    const int64_t longest = blocks.row_count * blocks.column_count;
    for (size_t k = 0; k < code.slots; ++k) slots_[k] = scratch.slot(k);
    for (size_t k = 0; k < code.constants.size(); ++k)
      chains::fill(slots_[code.inputs + k], code.constants[k], static_cast<size_t>(longest));
  }

  void run(int64_t begin, int64_t end) {
    int64_t column_block = begin % blocks_.column_blocks;
    int64_t row_block = begin / blocks_.column_blocks % blocks_.row_blocks;
    int64_t outer = begin / blocks_.column_blocks / blocks_.row_blocks;
    for (int64_t block = begin; block < end; ++block) {
      const int64_t column = column_block * blocks_.column_count;
      const int64_t row = row_block * blocks_.row_count;
      const int64_t rows = std::min(blocks_.row_count, blocks_.rows - row);
      const int64_t columns = std::min(blocks_.column_count, blocks_.inner - column);
      for (size_t i = 0; i < grid_.operands.size(); ++i) bind(i, outer, row, column, rows, columns);
      const auto count = static_cast<size_t>(rows * columns);
      const int64_t place = (outer * blocks_.rows + row) * blocks_.inner + column;
      if (!boolean_) slots_[code_.slots - 1] = reinterpret_cast<float*>(out_) + place;
      chains::run_block(code_, slots_.data(), count);
      if (boolean_) {
        const float* made = slots_[code_.slots - 1];
        for (size_t k = 0; k < count; ++k) out_[static_cast<size_t>(place) + k] = made[k] != 0.0F;
      }
      if (++column_block < blocks_.column_blocks) continue;
      column_block = 0;
      if (++row_block < blocks_.row_blocks) continue;
      row_block = 0;
      ++outer;
    }
  }

 private:
  void bind(size_t i, int64_t outer, int64_t row, int64_t column, int64_t rows, int64_t columns) {
    const Operand& operand = grid_.operands[i];
    const size_t dims = grid_.dims;
    const int64_t stride = operand.strides[dims - 1];
    const int64_t row_stride = dims > 1 ? operand.strides[dims - 2] : 0;
    int64_t offset = row * row_stride + column * stride;
    for (size_t k = dims > 2 ? dims - 2 : 0; k-- > 0; outer /= grid_.sizes[k])
      offset += outer % grid_.sizes[k] * operand.strides[k];
    const char* data = operand.data + offset * (operand.boolean ? 1 : 4);
    if (!operand.boolean && (columns == 1 || stride == 1) && (rows == 1 || row_stride == columns)) {
      slots_[i] = const_cast<float*>(reinterpret_cast<const float*>(data));
      return;
    }
    // Operands that many blocks share, such as a bias, are gathered once. A block of one row, which
    // reads such an operand in place, may lie between them.
    Laid& laid = laid_[i];
    slots_[i] = scratch_->slot(i);
    if (laid.data == data && laid.rows >= rows && laid.columns == columns) return;
    laid = {data, rows, columns};
    gather(operand, data, row_stride, stride, rows, columns, slots_[i]);
  }

  struct Laid {
    const char* data = nullptr;
    int64_t rows = 0, columns = 0;
  };

  const Code& code_;
  const Grid& grid_;
  const Blocks& blocks_;
  const bool boolean_;
  char* out_ = nullptr;
  Scratch* scratch_ = nullptr;
  std::array<float*, chains::kMostSlots> slots_{};
  std::array<Laid, chains::kMostInputs> laid_{};
};

void compute(c10::ArrayRef<c10::IValue> inputs, const std::string& text, const Tensor& out) {
  const Code& code = chains::parsed(text, inputs.size());
  TORCH_CHECK(out.scalar_type() == (code.boolean ? at::kBool : at::kFloat), "wide::chain: out is ",
              out.scalar_type());
  if (out.numel() == 0) return;
  const Grid grid(inputs, out);
  const Blocks blocks(grid);
  const auto instructions = static_cast<int64_t>(code.instructions.size());
  constexpr int64_t kElements = 16384;  // elements times instructions worth a thread
  const int64_t grain = kElements / (blocks.row_count * blocks.column_count * instructions) + 1;
  at::parallel_for(0, blocks.count(), grain, [&](int64_t begin, int64_t end) {
    Run(code, grid, blocks, out).run(begin, end);
  });
}

/// A chain of pointwise operators over blocks that stay in the first-level cache: `code` (see
/// chain_code.h) of float32 or bool inputs that broadcast together. The result is float32, or bool
/// if the last instruction compares, and has the dense `strides`.
// Reads the stack itself, as LibTorch's unboxing would copy the lists in every call.
void chain_boxed(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const size_t at = stack->size() - 3;
  const c10::ArrayRef<c10::IValue> inputs = (*stack)[at].toListRef();
  const std::string& text = (*stack)[at + 1].toStringRef();
  std::vector<int64_t> sizes;
  for (const c10::IValue& i : inputs) sizes = at::infer_size(sizes, i.toTensor().sizes());
  Tensor out =
      at::empty_strided(sizes, (*stack)[at + 2].toIntVector(),
                        at::TensorOptions().dtype(
                            chains::parsed(text, inputs.size()).boolean ? at::kBool : at::kFloat));
  compute(inputs, text, out);
  stack->resize(at);
  stack->emplace_back(std::move(out));
}

void chain_out_boxed(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const size_t at = stack->size() - 4;
  Tensor out = (*stack)[at + 3].toTensor();
  compute((*stack)[at].toListRef(), (*stack)[at + 1].toStringRef(), out);
  stack->resize(at);
  stack->emplace_back(std::move(out));
}

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_operator(m, "chain", "Tensor[] inputs, str code, int[] strides",
                        torch::CppFunction::makeFromBoxedFunction<&chain_boxed>(),
                        torch::CppFunction::makeFromBoxedFunction<&chain_out_boxed>(),
                        {.others = {at::kBool}});
}

[[maybe_unused]] const bool registered =
    add_operator_traits({.op = "wide::chain", .in_place = true, .cheap = true});

}  // namespace
}  // namespace wide::chain_operator
