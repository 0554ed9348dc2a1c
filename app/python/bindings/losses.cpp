#include "app/python/bindings/losses.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace nwide {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using wide::Tensor;

/// The number of rows of `each` numbers that make a thread worthwhile.
int64_t rows_at_once(int64_t each) { return std::max<int64_t>(1, (1 << 15) / each); }

/// at::log_softmax over the last dimension, for float32 by a kernel that is faster on short rows.
Tensor log_softmax(const Tensor& scores) {
  if (scores.scalar_type() != at::kFloat) return at::log_softmax(scores, -1);
  static const auto kernel = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("wide::softmax", "")
                                 .typed<Tensor(const Tensor& x, bool log)>();
  return kernel.call(scores, /*log=*/true);
}

/// The number of rows that count for each model, [N].
std::vector<int64_t> counted_rows(const Tensor& target, int64_t ignore_index) {
  const int64_t n = target.size(0), rows = target.size(1);
  const auto* classes = target.const_data_ptr<int64_t>();
  std::vector<int64_t> counted(static_cast<size_t>(n), 0);
  for (int64_t i = 0; i < n * rows; ++i)
    counted[static_cast<size_t>(i / rows)] += classes[i] != ignore_index;
  return counted;
}

struct CrossEntropy : Function<CrossEntropy> {
  static Tensor forward(AutogradContext* context, const Tensor& scores, const Tensor& target,
                        int64_t ignore_index) {
    const int64_t n = scores.size(0), rows = scores.size(1), count = scores.size(2);
    const Tensor logarithms = log_softmax(scores);
    const auto* classes = target.const_data_ptr<int64_t>();
    const std::vector<int64_t> counted = counted_rows(target, ignore_index);
    Tensor loss = at::empty({n}, scores.options());
    AT_DISPATCH_FLOATING_TYPES(scores.scalar_type(), "cross_entropy", [&] {
      const auto* of_class = logarithms.const_data_ptr<scalar_t>();
      auto* losses = loss.mutable_data_ptr<scalar_t>();
      for (int64_t m = 0; m < n; ++m) {
        double sum = 0;
        for (int64_t i = m * rows; i < (m + 1) * rows; ++i) {
          if (classes[i] == ignore_index) continue;
          TORCH_CHECK_INDEX(classes[i] >= 0 && classes[i] < count, "Target ", classes[i],
                            " is out of bounds.");
          sum -= double(of_class[i * count + classes[i]]);
        }
        losses[m] = static_cast<scalar_t>(sum / double(counted[static_cast<size_t>(m)]));
      }
    });
    context->save_for_backward({scores, target, logarithms});
    context->saved_data["ignore_index"] = ignore_index;
    return loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& cotangents) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &scores = saved[0], &target = saved[1];
    const int64_t ignore_index = context->saved_data["ignore_index"].toInt();
    // Batched cotangents of vectorised Jacobians have no storage.
    if (at::GradMode::is_enabled() || !cotangents[0].has_storage())
      return {differentiable(scores, target, ignore_index, cotangents[0]), Tensor(), Tensor()};
    const int64_t n = scores.size(0), rows = scores.size(1), count = scores.size(2);
    const auto* classes = target.const_data_ptr<int64_t>();
    const std::vector<int64_t> counted = counted_rows(target, ignore_index);
    Tensor gradient = at::exp(saved[2]);
    const Tensor own = cotangents[0].contiguous();
    AT_DISPATCH_FLOATING_TYPES(scores.scalar_type(), "cross_entropy_backward", [&] {
      auto* to = gradient.mutable_data_ptr<scalar_t>();
      const auto* scale = own.const_data_ptr<scalar_t>();
      at::parallel_for(0, n * rows, rows_at_once(count), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          scalar_t* row = to + i * count;
          const auto m = static_cast<size_t>(i / rows);
          if (classes[i] == ignore_index) {
            std::fill_n(row, count, scalar_t(0));
            continue;
          }
          const auto by = scale[m] / static_cast<scalar_t>(counted[m]);
          row[classes[i]] -= 1;
          for (int64_t c = 0; c < count; ++c) row[c] *= by;
        }
      });
    });
    return {gradient, Tensor(), Tensor()};
  }

 private:
  /// For second derivatives: the same by differentiable operators.
  static Tensor differentiable(const Tensor& scores, const Tensor& target, int64_t ignore_index,
                               const Tensor& cotangent) {
    const Tensor counts = target.ne(ignore_index);
    const Tensor scale = cotangent / counts.sum(1).clamp_min(1);
    const Tensor one_hot = at::zeros_like(scores).scatter_(
        -1, target.masked_fill(counts.logical_not(), 0).unsqueeze(-1), 1.0);
    const Tensor rows = at::softmax(scores, -1) - one_hot;
    return at::where(counts.unsqueeze(-1), rows * scale.view({-1, 1, 1}), at::zeros_like(rows));
  }
};

struct MeanSquare : Function<MeanSquare> {
  static Tensor forward(AutogradContext* context, const Tensor& output, const Tensor& target) {
    const int64_t n = output.size(0), each = output.numel() / n;
    Tensor loss = at::empty({n}, output.options());
    const Tensor a = output.contiguous(), b = target.contiguous();
    AT_DISPATCH_FLOATING_TYPES(output.scalar_type(), "mse_loss", [&] {
      const auto *x = a.const_data_ptr<scalar_t>(), *y = b.const_data_ptr<scalar_t>();
      auto* losses = loss.mutable_data_ptr<scalar_t>();
      at::parallel_for(0, n, rows_at_once(each), [&](int64_t begin, int64_t end) {
        for (int64_t m = begin; m < end; ++m) {
          double sum = 0;
          for (int64_t i = m * each; i < (m + 1) * each; ++i) {
            const double difference = double(x[i] - y[i]);
            sum += difference * difference;
          }
          losses[m] = static_cast<scalar_t>(sum / double(each));
        }
      });
    });
    context->save_for_backward({output, target});
    return loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& cotangents) {
    const variable_list saved = context->get_saved_variables();
    const Tensor& output = saved[0];
    std::vector<int64_t> sizes(static_cast<size_t>(output.dim()), 1);
    sizes[0] = output.size(0);
    const double each = double(output.numel() / output.size(0));
    const Tensor gradient = (output - saved[1]) * (cotangents[0] * (2 / each)).view(sizes);
    return {gradient, context->needs_input_grad(1) ? gradient.neg() : Tensor()};
  }
};

}  // namespace

Tensor cross_entropy(const Tensor& scores, const Tensor& target, int64_t ignore_index) {
  const py::gil_scoped_release released;
  return CrossEntropy::apply(scores.contiguous(), target.contiguous(), ignore_index);
}

Tensor mse_loss(const Tensor& output, const Tensor& target) {
  const py::gil_scoped_release released;
  return MeanSquare::apply(output, target);
}

}  // namespace nwide
