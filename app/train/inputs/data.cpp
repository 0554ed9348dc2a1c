#include "app/train/inputs/data.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "app/train/inputs/own_rows.h"
#include "app/train/models/values.h"
#include "data/bytes/csv.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

/// The number, if the option's text is a fraction; nullopt if it names a file.
std::optional<double> fraction_of(const std::string& option, const std::string& text) {
  double share = 0;
  if (!parse_number(text, &share)) return std::nullopt;
  if (!(share > 0 && share < 1))
    fail("[{}] fraction: got {}, expected between 0 and 1, or a file; try 0.2", option,
         printable(text));
  return share;
}

Rows to_rows(const Tensor& t) {
  const Tensor plain = t.to(at::kLong).contiguous();
  return {plain.const_data_ptr<int64_t>(), plain.const_data_ptr<int64_t>() + plain.numel()};
}

/// Group and class of each row, for the split. Under bce_with_logits there are classes only if all
/// targets are 0 or 1.
RowKinds row_kinds(const DataParts& parts, const Loss& loss) {
  RowKinds kinds;
  kinds.groups = parts.group;
  if (!parts.target || parts.target->own) return kinds;
  const Tensor& of = parts.target->values;
  const bool one = of.numel() == parts.rows;
  if (loss.classifies() ? of.dim() == 1
                        : loss.name == "bce_with_logits" && one &&
                              of.eq(0).logical_or(of.eq(1)).all().item<bool>())
    kinds.classes = to_rows(of.reshape({-1}));
  return kinds;
}

/// Refuses a column of folds that splits a group between folds.
void check_groups(const TrainOptions& options, const TrainingData& data, const Rows& rows) {
  if (data.train.group.empty()) return;
  std::map<int64_t, int64_t> fold_of_group;
  for (const int64_t row : rows) {
    const int64_t fold = data.fold_of[static_cast<size_t>(row)];
    const auto [at, first] =
        fold_of_group.emplace(data.train.group[static_cast<size_t>(row)], fold);
    if (at->second != fold)
      fail(
          "[{}] column {}: got rows of one {} in several folds (row {}), expected them together; "
          "try --folds instead",
          data.train.file, printable(options.fold), printable(options.group), row);
  }
}

/// Mean and standard deviation of one input over the rows that `index` selects: for each feature
/// [F], or for each channel [C, 1, ...].
std::pair<Tensor, Tensor> statistics(const Tensor& rows) {
  std::vector<int64_t> over{0};
  for (int64_t d = 2; d < rows.dim(); ++d) over.push_back(d);
  // In pieces, so that a file of small integers is never converted to float64 as a whole.
  const int64_t piece = std::max<int64_t>(1, (1 << 22) / std::max<int64_t>(1, rows[0].numel()));
  const auto sum_of = [&](const auto& what) {
    Tensor sum;
    for (int64_t begin = 0; begin < rows.size(0); begin += piece) {
      const int64_t size = std::min(piece, rows.size(0) - begin);
      const Tensor x = rows.narrow(0, begin, size).to(at::kDouble);
      const Tensor part = what(x).sum(over, /*keepdim=*/true);
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  };
  // From the first number of each, so that the mean of equal numbers is exactly theirs.
  Tensor begin = rows.numel() == 0 ? at::zeros({1}, at::kDouble) : rows;
  for (size_t d = 0; d < over.size() && rows.numel() > 0; ++d) begin = begin.narrow(over[d], 0, 1);
  begin = begin.to(at::kDouble);
  const Tensor sum = sum_of([&](const Tensor& x) { return x - begin; });
  const double count = double(rows.numel()) / double(std::max<int64_t>(1, sum.numel()));
  const Tensor mean = begin + sum / count;
  const Tensor std = (sum_of([&](const Tensor& x) { return (x - mean).square(); }) / count).sqrt();
  return {mean[0], at::where(std == 0, at::ones_like(std), std)[0]};
}

/// Reads `--rows`, and refuses other options that say which rows are held back.
OwnRows own_rows(const TrainOptions& options, const DataParts& data, bool folded) {
  if (folded) fail("[--rows] rows: got folds too, expected one of them; try to leave one out");
  OwnRows own = read_own_rows(options.rows, data.rows);
  for (const auto& [option, asked, held] :
       {std::tuple("--validation", &options.validation, &own.validation),
        std::tuple("--test", &options.test, &own.test)})
    if (!held->empty() && !asked->empty())
      fail(
          "[{}] rows: got it and a column use that says them, expected one of them; try to leave "
          "one "
          "out",
          option);
  return own;
}

/// For each model, its rows that are also in `kept`: no model learns from rows held back from all.
std::vector<Rows> kept_of(const TrainOptions& options, const std::vector<Rows>& own,
                          const Rows& kept, int64_t all) {
  std::vector<bool> is_kept(static_cast<size_t>(all), false);
  for (const int64_t row : kept) is_kept[static_cast<size_t>(row)] = true;
  std::vector<Rows> made(own.size());
  for (size_t m = 0; m < own.size(); ++m) {
    for (const int64_t row : own[m])
      if (is_kept[static_cast<size_t>(row)]) made[m].push_back(row);
    if (made[m].empty())
      fail(
          "[{}] model {}: got all of its {} rows held back, expected some to learn from; try a "
          "smaller fraction",
          printable(options.rows), m, own[m].size());
  }
  return made;
}

}  // namespace

int64_t asked_folds(const TrainOptions& options) {
  if (options.folds == 1 || options.folds < 0)
    fail("[--folds] folds: got {}, expected at least 2; try --folds 5", options.folds);
  return options.folds;
}

TrainingData read_training_data(const TrainOptions& options, const DataWanted& wanted) {
  TrainingData data;
  data.train = read_parts(options, options.data, wanted, RowsTo::learn, nullptr);
  const RowKinds kinds = row_kinds(data.train, *wanted.loss);
  const bool folded = options.folds > 0 || !options.fold.empty();
  if (options.folds > 0 && !options.fold.empty())
    fail("[--folds] folds: got --fold too, expected one of them; try to leave one out");
  if (folded && !options.validation.empty())
    fail("[--validation] rows: got folds too, expected one of them; try to leave one out");

  const auto is_share = [](const std::string& option, const std::string& text) {
    return !text.empty() && fraction_of(option, text);
  };
  if (!options.group.empty() && !folded && !is_share("--validation", options.validation) &&
      !is_share("--test", options.test))
    fail(
        "[--group] rows: got none that are split, expected some that a group keeps together; try "
        "--validation 0.2 or --folds 5");

  OwnRows own;
  if (!options.rows.empty()) own = own_rows(options, data.train, folded);
  data.by_model = !own.train.empty();
  Rows rows = all_rows(data.train.rows);
  if (!own.test.empty()) data.test = own.test;
  if (!options.test.empty()) {
    if (const auto share = fraction_of("--test", options.test)) {
      Split split = hold_back(rows, *share, kinds, options.seed ^ 0x7e57, "--test");
      rows = std::move(split.train);
      data.test.push_back(std::move(split.held));
    } else {
      data.test_file = read_parts(options, options.test, wanted, RowsTo::hold, &data.train.columns);
      data.test.push_back(all_rows(data.test_file->rows));
    }
  }
  if (folded) {
    if (!options.fold.empty()) {
      data.fold_of.assign(static_cast<size_t>(data.train.rows), -1);
      for (const int64_t row : rows)
        data.fold_of[static_cast<size_t>(row)] = data.train.fold[static_cast<size_t>(row)];
      data.folds = 1 + *std::ranges::max_element(data.train.fold);
      if (data.folds < 2)
        fail("[{}] column {}: got one value, expected a fold for each; try --folds 5",
             data.train.file, printable(options.fold));
      check_groups(options, data, rows);
    } else {
      data.folds = asked_folds(options);
      data.fold_of = assign_folds(data.train.rows, rows, data.folds, kinds, options.seed);
    }
    for (int64_t f = 0; f < data.folds; ++f) {
      Rows held, rest;
      for (const int64_t row : rows)
        (data.fold_of[static_cast<size_t>(row)] == f ? held : rest).push_back(row);
      if (held.empty() || rest.empty())
        fail(
            "[--test] rows: got all of fold {} or of the others, expected some of each to stay; "
            "try a smaller fraction",
            f);
      data.train_rows.push_back(std::move(rest));
      data.validation.push_back(std::move(held));
    }
  } else if (!options.validation.empty()) {
    if (const auto share = fraction_of("--validation", options.validation)) {
      const double all = double(options.validation_of_rest ? rows.size() : data.train.rows);
      Split split =
          hold_back(rows, *share * all / double(rows.size()), kinds, options.seed, "--validation");
      data.train_rows.push_back(std::move(split.train));
      data.validation.push_back(std::move(split.held));
    } else {
      data.validation_file =
          read_parts(options, options.validation, wanted, RowsTo::hold, &data.train.columns);
      data.train_rows.push_back(std::move(rows));
      data.validation.push_back(all_rows(data.validation_file->rows));
    }
  } else {
    data.train_rows.push_back(std::move(rows));
  }
  if (data.by_model) {
    if (!own.validation.empty()) data.validation = own.validation;
    data.train_rows = kept_of(options, own.train, data.train_rows[0], data.train.rows);
  }
  add_normalization(options, &data);
  return data;
}

std::vector<DataParts*> TrainingData::files() {
  std::vector<DataParts*> all{&train};
  for (auto* file : {&validation_file, &test_file})
    if (*file) all.push_back(&**file);
  return all;
}

void TrainingData::take_models(int64_t first, int64_t count) {
  first_model = first;
  for (Normalization& n : normalization) {
    if (!n.by_model) continue;
    n.mean = n.mean.narrow(0, first, count);
    n.std = n.std.narrow(0, first, count);
  }
  for (DataParts* parts : files()) wide::take_models(parts, first, count);
}

void add_normalization(const TrainOptions& options, TrainingData* data) {
  for (const std::string& text : options.normalize) {
    const auto [input, what] =
        key_value("--normalize", text, data->train.inputs[0].name + "=standard");
    const DataPart* part = nullptr;
    for (const DataPart& p : data->train.inputs)
      if (p.name == input) part = &p;
    if (!part)
      fail("[--normalize] input: got {}, expected one of forward's; try {}=standard",
           printable(input), printable(data->train.inputs[0].name));
    if (!part->real)
      fail(
          "[--normalize] input: got {}, which forward takes as whole numbers, expected real ones; "
          "try another input",
          printable(input));
    for (const Normalization& other : data->normalization)
      if (other.input == input)
        fail("[--normalize] input: got {} twice, expected it once; try to leave one out",
             printable(input));
    Normalization n{input, {}, {}};
    if (what != "standard") {
      const auto numbers = split(what);
      double mean = 0, std = 0;
      if (numbers.size() != 2 || !parse_number(numbers[0], &mean) ||
          !parse_number(numbers[1], &std) || !(std > 0))
        fail(
            "[--normalize] {}: got {}, expected standard or MEAN,STD with STD above 0; try "
            "{}=standard",
            printable(input), printable(what), printable(input));
      n.mean = at::full({1}, mean, at::kDouble);
      n.std = at::full({1}, std, at::kDouble);
    } else {
      Tensors means, stds;
      const int64_t groups = part->own ? part->values.size(0) : int64_t(data->train_rows.size());
      if (part->own && data->folds > 0)
        fail(
            "[--normalize] {}: got columns of each model's own and folds, expected one of them; "
            "try MEAN,STD",
            printable(input));
      for (int64_t g = 0; g < groups; ++g) {
        const Rows& rows = data->train_rows[part->own ? 0 : static_cast<size_t>(g)];
        const Tensor index = at::tensor(rows, at::kLong);
        const Tensor from = part->own ? part->values[g] : part->values;
        const auto [mean, std] = statistics(from.index_select(0, index));
        means.push_back(mean);
        stds.push_back(std);
      }
      n.mean = at::stack(means);
      n.std = at::stack(stds);
      n.by_model = part->own || data->by_model;
    }
    data->normalization.push_back(std::move(n));
  }
}

PrepareRows preparation(const TrainingData& data, const std::string& input,
                        const std::vector<int64_t>& group) {
  for (const Normalization& n : data.normalization) {
    if (n.input != input) continue;
    return [n, group](int64_t model, const Tensor& rows) {
      const int64_t g = n.mean.size(0) == 1 || model < 0 ? 0 : group.at(static_cast<size_t>(model));
      // In float64, as the statistics are: the result equals that of a user's own NumPy code.
      return (rows.to(at::kDouble) - n.mean[g]) / n.std[g];
    };
  }
  return {};
}

}  // namespace wide
