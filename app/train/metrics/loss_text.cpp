#include "app/train/metrics/loss_text.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "app/train/models/values.h"
#include "data/bytes/csv.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

double number_of(const std::string& key, const std::string& text) {
  double number = 0;
  if (!parse_number(text, &number) || std::isnan(number))
    fail("[--loss] {}: got {}, expected a number; try {}=0.1", key, printable(text), key);
  return number;
}

Tensor numbers_of(const std::string& key, const std::string& text) {
  std::vector<double> numbers;
  for (const std::string& part : listed(text)) numbers.push_back(number_of(key, part));
  return at::tensor(numbers, at::kDouble);
}

}  // namespace

size_t output_number(const std::string& option, const std::string& text,
                     const std::vector<std::string>& names) {
  const auto named = std::ranges::find(names, text);
  if (named != names.end()) return static_cast<size_t>(named - names.begin());
  if (const auto number = whole_number(text); number && *number >= 0)
    return static_cast<size_t>(*number);
  fail("[{}] output: got {}, expected the number of one of forward's, from 0{}; try 0", option,
       printable(text), names.empty() ? "" : ", or its name: " + listing(names, 9));
}

Loss LossText::held() const {
  Loss own = loss;
  own.output = held_output;
  return own;
}

LossText parse_loss(const std::string& text, const std::string& output,
                    const std::vector<std::string>& names,
                    const std::vector<std::string>& held_names) {
  const std::vector<std::string> parts = split(text, ':');
  LossText parsed;
  Loss& loss = parsed.loss;
  if (text.empty())
    fail("[--loss] loss: got none, expected one of {}; try --loss cross_entropy",
         fmt::join(loss_names(), ", "));
  const bool computed = parts[0].rfind("output.", 0) == 0;
  if (!output.empty()) {
    if (!computed) loss.output = output_number("--output", output, names);
    parsed.answer = parsed.held_output = output_number("--output", output, held_names);
  }
  loss.name = parts[0];
  if (computed) {
    const std::string which = loss.name.substr(7);
    loss.output = output_number("--loss", which, names);
    parsed.held_output = output_number("--loss", which, held_names);
    loss.name = "output";
    if (output.empty()) parsed.answer = parsed.held_output;
  } else if (loss.name == "output") {
    fail(
        "[--loss] output: got none, expected the number of one of forward's, from 0{}; try --loss "
        "output.0",
        names.empty() ? "" : ", or its name: " + listing(names, 9));
  }
  loss.check();
  std::set<std::string> keys;
  for (size_t i = 1; i < parts.size(); ++i) {
    const auto [key, value] = key_value("--loss", parts[i], loss.name + ":KEY=VALUE");
    if (!keys.insert(key).second)
      fail("[--loss] {}: got it twice, expected it once; try to leave one out", printable(key));
    if (key == "label_smoothing" && loss.name == "cross_entropy") {
      parsed.label_smoothing = number_of(key, value);
    } else if (key == "weight" && loss.classifies()) {
      parsed.balanced = value == "balanced";
      if (!parsed.balanced) loss.weight = numbers_of(key, value);
    } else if (key == "ignore_index" && loss.classifies()) {
      const auto whole = whole_number(value);
      if (!whole)
        fail("[--loss] ignore_index: got {}, expected a whole number, a class; try ignore_index=-1",
             printable(value));
      loss.ignore_index = *whole;
    } else if (key == "pos_weight" && loss.name == "bce_with_logits") {
      loss.pos_weight = numbers_of(key, value);
      if (loss.pos_weight.numel() == 1) loss.pos_weight = loss.pos_weight[0];
    } else if (key == "delta" && loss.name == "huber") {
      loss.delta = number_of(key, value);
    } else {
      const char* known = loss.name == "cross_entropy"     ? "label_smoothing, weight, ignore_index"
                          : loss.name == "nll"             ? "weight, ignore_index"
                          : loss.name == "bce_with_logits" ? "pos_weight"
                          : loss.name == "huber"           ? "delta"
                                                           : "none";
      fail("[--loss] key of {}: got {}, expected {}; try {} alone", loss.name, printable(key),
           known, loss.name);
    }
  }
  loss.check();
  return parsed;
}

Tensor balanced_weights(const TrainingData& data, const std::vector<ModelSettings>& models,
                        int64_t classes, int64_t ignore_index) {
  const DataPart& target = *data.train.target;
  const auto weights_of = [&](size_t fold, int64_t model) {
    const Tensor index = at::tensor(data.train_rows[fold], at::kLong);
    Tensor of = (target.own ? target.values[model] : target.values).index_select(0, index);
    of = of.reshape({-1});
    of = of.index_select(0, of.ne(ignore_index).nonzero().reshape({-1}));
    const Tensor counts = at::bincount(of, {}, classes).to(at::kDouble);
    const Tensor weights = double(of.numel()) / (double(classes) * counts);
    return at::where(counts > 0, weights, at::zeros_like(weights));
  };
  if (!target.own && data.train_rows.size() == 1) return weights_of(0, 0);
  Tensors all;
  for (size_t i = 0; i < models.size(); ++i)
    all.push_back(
        weights_of(data.train_rows.size() == 1 ? 0 : data.group_of(models, static_cast<int64_t>(i)),
                   static_cast<int64_t>(i)));
  return at::stack(all);
}

}  // namespace wide
