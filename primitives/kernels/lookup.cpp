#include "primitives/kernels/lookup.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "primitives/kernels/operators.h"
#include "primitives/kernels/registration.h"
#include "primitives/kernels/stream.h"

namespace wide {

namespace {

using at::Tensor;

struct Tables {
  const float* rows;
  int64_t model_stride, row_stride, count,
      width;  // strides in floats; rows per table; floats per row
};

template <class Index>
void copy_rows(const Tables& tables, const Index* ids, int64_t per_model, float* out, bool stream,
               int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const auto id = static_cast<int64_t>(ids[i]);
    TORCH_CHECK_INDEX(id >= 0 && id < tables.count, "wide::lookup: index ", id, " of model ",
                      i / per_model, " is outside a table of ", tables.count, " rows");
    const float* row = tables.rows + i / per_model * tables.model_stride + id * tables.row_stride;
    if (stream) {
      kernels::stream_copy(out + i * tables.width, row, tables.width);
    } else {
      std::memcpy(out + i * tables.width, row, static_cast<size_t>(tables.width) * sizeof(float));
    }
  }
  if (stream) kernels::stream_fence();
}

Tensor& lookup_out(const Tensor& tables, const Tensor& ids, Tensor& out) {
  TORCH_CHECK(tables.dim() == 3 && ids.dim() >= 1 && ids.size(0) == tables.size(0),
              "wide::lookup: tables ", tables.sizes(), " and ids ", ids.sizes(), " do not fit");
  TORCH_CHECK(out.is_contiguous() && out.numel() == ids.numel() * tables.size(2),
              "wide::lookup: out ", out.sizes(), " is not contiguous or of another size");
  const Tensor rows = tables.stride(2) == 1 || tables.size(2) == 1 ? tables : tables.contiguous();
  const Tensor dense = ids.contiguous();
  const Tables all{rows.const_data_ptr<float>(), rows.stride(0), rows.stride(1), rows.size(1),
                   rows.size(2)};
  float* y = out.mutable_data_ptr<float>();
  const int64_t per_model = ids.numel() / ids.size(0);
  const bool stream = static_cast<int64_t>(out.nbytes()) >= kernels::kStreamBytes;
  const int64_t grain = std::max<int64_t>(1, 16384 / all.width);
  at::parallel_for(0, ids.numel(), grain, [&](int64_t begin, int64_t end) {
    if (dense.scalar_type() == at::kLong)
      copy_rows(all, dense.const_data_ptr<int64_t>(), per_model, y, stream, begin, end);
    else
      copy_rows(all, dense.const_data_ptr<int32_t>(), per_model, y, stream, begin, end);
  });
  return out;
}

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(m, "lookup", "Tensor tables, Tensor ids",
                               [](const Tensor& tables, const Tensor& ids) {
                                 std::vector<int64_t> sizes = ids.sizes().vec();
                                 sizes.push_back(tables.size(2));
                                 return at::empty(sizes, tables.options());
                               },
                               lookup_out, {.others = {at::kLong, at::kInt}});
}

}  // namespace

Tensor lookup(const Tensor& tables, const Tensor& ids) {
  return kernels::call("lookup", {tables, ids});
}

}  // namespace wide
