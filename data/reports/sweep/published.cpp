#include "data/reports/sweep/published.h"

#include <map>

namespace wide {
namespace {

// WideCompiler 0.7 on an A100: N, and the speedup over N separate calls of a compiled model, which
// there all use one set of weights. Mean wall-clock times, without stacking the inputs.
using Figures = std::vector<Point>;

const std::map<std::string, Figures>& table() {
  static const std::map<std::string, Figures> figures = {
      {"dropout", {{32, 173.7}}},
      {"batchnorm1d", {{32, 36.7}}},
      {"batchnorm2d", {{32, 35.8}}},
      {"embedding", {{32, 27.1}}},
      {"batchnorm3d", {{32, 23.5}}},
      {"instancenorm2d", {{32, 21.3}}},
      {"rmsnorm", {{32, 20.8}}},
      {"multiheadcrossattention", {{32, 17.8}}},
      {"adaptiveavgpool2d", {{32, 15.2}}},
      {"ada_layer_norm_zero_single", {{16, 15.2}}},
      {"mlp_embedder", {{32, 14.8}}},
      {"groupnorm", {{32, 12.9}}},
      {"conv1d", {{32, 12.1}}},
      {"prelu", {{32, 12.0}}},
      {"layernorm", {{32, 9.8}}},
      {"attention", {{32, 9.6}}},
      {"linear", {{32, 8.8}}},
      {"conv2d", {{32, 6.2}}},
      {"convtranspose2d", {{32, 5.7}}},
      {"rnn", {{32, 5.6}}},
      {"convtranspose1d", {{32, 5.3}}},
      {"conv3d", {{16, 4.4}}},
      {"lstm", {{32, 3.3}}},
      {"gru", {{32, 2.9}}},
      {"attention_block", {{4, 4.0}, {8, 7.6}, {16, 10.7}, {32, 8.4}}},
      {"joint_attention", {{4, 3.0}, {8, 3.9}, {16, 5.4}, {32, 5.5}}},
      {"mlp_block", {{4, 3.1}, {8, 3.4}, {16, 3.9}, {32, 2.5}}},
      {"double_stream_block", {{4, 4.0}, {8, 6.8}}},
      {"single_stream_block", {{4, 3.1}, {8, 3.5}}},
  };
  return figures;
}

}  // namespace

std::optional<PublishedLine> published_line(const std::string& target) {
  const auto it = table().find(target);
  if (it == table().end()) return std::nullopt;
  return PublishedLine{"published (A100)", it->second, false};
}

}  // namespace wide
