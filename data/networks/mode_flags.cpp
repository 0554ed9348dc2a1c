#include "data/networks/mode_flags.h"

#include <algorithm>
#include <array>

namespace wide {

const std::vector<ModeFlag>& mode_flags() {
  using W = ModeFlag::What;
  static const std::vector<ModeFlag> all{
      {"aten::dropout", "train", W::dropout},
      {"aten::dropout_", "train", W::dropout},
      {"aten::feature_dropout", "train", W::dropout},
      {"aten::feature_dropout_", "train", W::dropout},
      {"aten::alpha_dropout", "train", W::dropout},
      {"aten::alpha_dropout_", "train", W::dropout},
      {"aten::feature_alpha_dropout", "train", W::dropout},
      {"aten::feature_alpha_dropout_", "train", W::dropout},
      {"aten::native_dropout", "train", W::dropout},
      {"aten::rrelu", "training", W::dropout},
      {"aten::rrelu_", "training", W::dropout},
      {"aten::lstm", "train", W::dropout},
      {"aten::gru", "train", W::dropout},
      {"aten::rnn_tanh", "train", W::dropout},
      {"aten::rnn_relu", "train", W::dropout},
      {"aten::scaled_dot_product_attention", "dropout_p", W::dropout, "", true},
      {"aten::batch_norm", "training", W::batch_norm, "running_mean"},
      {"aten::native_batch_norm", "training", W::batch_norm, "running_mean"},
      {"aten::instance_norm", "use_input_stats", W::batch_norm, "running_mean"}};
  return all;
}

const ModeFlag* mode_flag(std::string_view op) {
  const auto& all = mode_flags();
  const auto it = std::find_if(all.begin(), all.end(), [&](const auto& f) { return f.op == op; });
  return it == all.end() ? nullptr : &*it;
}

bool is_bound_to_mode(std::string_view op) {
  constexpr std::array<std::string_view, 5> kBound{
      "aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit_functional",
      "aten::_native_batch_norm_legit_no_training", "aten::_batch_norm_no_update",
      "aten::_batch_norm_with_update"};
  return std::find(kBound.begin(), kBound.end(), op) != kBound.end();
}

}  // namespace wide
