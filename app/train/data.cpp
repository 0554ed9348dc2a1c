#include "app/train/data.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <set>

#include "app/train/values.h"
#include "data/bytes/csv.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Names behind an option, which may be given several times and with commas.
std::vector<std::string> flat(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts)
    for (std::string& name : split(text)) all.push_back(std::move(name));
  return all;
}

/// Finds the parts of one file.
class PartReader {
 public:
  PartReader(const TrainOptions& options, const std::string& path, const DataWanted& wanted)
      : options_(options), wanted_(wanted), file_(printable(path)), data_(open_dataset(path)) {
    for (const std::string& text : options.columns) {
      const auto [argument, columns] = key_value("--column", text, "ARG=COLUMN");
      said_[argument] = split(columns);
    }
    for (const auto& [argument, columns] : said_) {
      std::vector<std::string> names;
      for (const TensorSpec& spec : wanted.inputs) names.push_back(spec.name);
      if (!has(names, argument))
        fail("[--column] argument: got {}, expected one of forward's: {}; try {}={}",
             printable(argument), listing(names, 9), names.empty() ? "x" : printable(names[0]),
             printable(columns.empty() ? "x" : columns[0]));
      taken_.insert(columns.begin(), columns.end());
    }
    for (const std::string& name : flat(options.target)) taken_.insert(name);
    for (const std::string& name : {options.sample_weight, options.fold, options.group})
      if (!name.empty()) taken_.insert(name);
  }

  DataParts read(RowsTo what) {
    parts_.file = file_;
    read_inputs(what);
    if (what != RowsTo::predict && wanted_.loss->needs_target()) read_target();
    if (what != RowsTo::predict && !options_.sample_weight.empty()) {
      parts_.weight = part("weight", {options_.sample_weight}, at::kDouble);
      if (!parts_.weight->values.ge(0).all().item<bool>())
        fail("[{}] column {}: got weights below 0, expected none; try other weights", file_,
             printable(options_.sample_weight));
    }
    if (what == RowsTo::learn && !options_.fold.empty())
      parts_.fold = kinds(options_.fold, &parts_.fold_values);
    if (what == RowsTo::learn && !options_.group.empty()) parts_.group = kinds(options_.group);
    check_rows();
    if (what == RowsTo::learn) check_own();
    return std::move(parts_);
  }

 private:
  void read_inputs(RowsTo what) {
    for (const TensorSpec& spec : wanted_.inputs) {
      std::vector<std::string> columns{spec.name};
      const auto said = said_.find(spec.name);
      if (said != said_.end())
        columns = said->second;
      else if (data_.table && !data_.find(spec.name) && spec.name == "x")
        columns = rest_of_table();
      else if (!data_.find(spec.name) && what == RowsTo::predict)
        fail(
            "[{}] input {}: got no column of this name, expected all that forward takes, targets "
            "of a loss of its own too, as the data of the run have it; try to name one so",
            file_, printable(spec.name));
      else if (!data_.find(spec.name))
        fail("[{}] input {}: got no column of this name, expected one of {}; try --column {}={}",
             file_, printable(spec.name), listing(data_.names(), 9), printable(spec.name),
             data_.table ? "x" : printable(data_.names()[0]));
      DataPart p = part(spec.name, columns, std::nullopt);
      if (wanted_.knows_sizes)
        fit(spec, columns.size(), &p);
      else if (data_.table)
        p.values = p.values.to(wanted_.dtype);
      const at::ScalarType type = wanted_.knows_sizes ? spec.dtype : p.values.scalar_type();
      p.real = c10::isFloatingType(type) || (!wanted_.knows_sizes && type == at::kByte);
      check_finite(p);
      parts_.inputs.push_back(std::move(p));
    }
  }

  /// Holds an input against what forward says of it.
  void fit(const TensorSpec& spec, size_t columns, DataPart* p) const {
    const bool floating = spec.dtype == at::kFloat;
    if (!floating && c10::isFloatingType(p->values.scalar_type()))
      fail("[{}] column {}: got {}, expected whole numbers as forward's {}; try integers", file_,
           p->columns, short_name(p->values.scalar_type()), printable(spec.name));
    if (!floating && p->values.scalar_type() != spec.dtype) p->values = p->values.to(spec.dtype);
    if (data_.table && floating && columns == 1 && p->values.dim() == 1 && spec.sizes.size() == 2)
      p->values = p->values.unsqueeze(1);  // a table of one feature
    const Sizes expected(spec.sizes.begin() + (spec.sizes.empty() ? 0 : 1), spec.sizes.end());
    if (p->row_sizes() != expected)
      fail("[{}] column {}: got {} a row, expected {} as forward's {}; try another column{}", file_,
           p->columns, sizes_text(p->row_sizes()), sizes_text(expected), printable(spec.name),
           options_.own.empty() ? " or --own" : "");
  }

  std::vector<std::string> rest_of_table() const {
    std::vector<std::string> rest;
    for (const std::string& name : data_.names())
      if (!taken_.count(name)) rest.push_back(name);
    if (flat(options_.target).empty() && wanted_.loss->needs_target())
      fail("[{}] target: got none, expected the column that is learned; try --target {}", file_,
           printable(data_.names().back()));
    if (rest.empty())
      fail(
          "[{}] input x: got no column, expected at least one besides the target; try more "
          "columns",
          file_);
    return rest;
  }

  void read_target() {
    std::vector<std::string> columns = flat(options_.target);
    if (columns.empty()) {
      for (const std::string& name : data_.names())
        if (!taken_.count(name) && !used_.count(name)) columns.push_back(name);
      if (columns.size() != 1)
        fail("[{}] target: got {} that it may be, expected one column left; try --target {}", file_,
             columns.empty() ? "no column" : listing(columns, 5),
             columns.empty() ? "y" : printable(columns[0]));
    }
    const bool classes = wanted_.loss->classifies();
    parts_.target = part("target", columns, std::nullopt);
    Tensor& values = parts_.target->values;
    if (classes && c10::isFloatingType(values.scalar_type()))
      fail("[{}] target {}: got {}, expected whole numbers, the classes, for {}; try --loss mse",
           file_, parts_.target->columns, short_name(values.scalar_type()), wanted_.loss->name);
    values = values.to(classes ? at::kLong : wanted_.dtype);
    if (!classes) check_finite(*parts_.target);
  }

  DataPart part(const std::string& name, const std::vector<std::string>& columns,
                std::optional<at::ScalarType> dtype) {
    for (const std::string& column : columns) used_.insert(column);
    DataPart p;
    p.name = name;
    p.columns = printable(fmt::format("{}", fmt::join(columns, ",")));
    p.values = joined(columns);
    p.whole = !c10::isFloatingType(p.values.scalar_type());
    if (dtype) p.values = p.values.to(*dtype);
    const auto own = flat(options_.own);
    p.own = std::any_of(columns.begin(), columns.end(),
                        [&](const std::string& c) { return has(own, c); });
    if (p.own && p.values.dim() < 2)
      fail("[{}] column {}: got {}, expected [N, S, ...] under --own; try it without --own", file_,
           p.columns, sizes_text(p.values.sizes()));
    return p;
  }

  /// `x` of a table is all that is left.
  Tensor joined(const std::vector<std::string>& columns) const {
    if (columns.size() == 1 && columns[0] == "x" && data_.table && !data_.find("x"))
      return data_.joined(rest_of_table());
    return data_.joined(columns);
  }

  Rows kinds(const std::string& column, std::vector<double>* values_of = nullptr) {
    const Tensor values = part("kind", {column}, at::kDouble).values;
    if (values.dim() != 1)
      fail("[{}] column {}: got {}, expected a number a row; try another column", file_,
           printable(column), sizes_text(values.sizes()));
    const Tensor plain = values.contiguous();
    const double* data = plain.const_data_ptr<double>();
    std::vector<double> distinct(data, data + plain.numel());
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    Rows rows;
    for (int64_t i = 0; i < plain.numel(); ++i)
      rows.push_back(std::lower_bound(distinct.begin(), distinct.end(), data[i]) -
                     distinct.begin());
    if (values_of) *values_of = std::move(distinct);
    return rows;
  }

  void check_finite(const DataPart& p) const {
    if (!c10::isFloatingType(p.values.scalar_type())) return;
    const Tensor bad = p.values.isfinite().logical_not();
    if (!bad.any().item<bool>()) return;
    const int64_t row = bad.nonzero()[0][p.own ? 1 : 0].item<int64_t>();
    fail("[{}] column {}: got nan or inf in row {}, expected numbers; try to fill or drop it",
         file_, p.columns, row);
  }

  void check_rows() {
    const auto check = [&](const std::string& columns, int64_t count) {
      if (parts_.rows == 0) parts_.rows = count;
      if (count != parts_.rows)
        fail("[{}] column {}: got {} rows, expected {} as the others; try columns of one length",
             file_, columns, count, parts_.rows);
    };
    for (const DataPart& p : parts_.inputs) check(p.columns, p.rows());
    if (parts_.target) check(parts_.target->columns, parts_.target->rows());
    if (parts_.weight) check(parts_.weight->columns, parts_.weight->rows());
    if (!parts_.fold.empty()) check(options_.fold, static_cast<int64_t>(parts_.fold.size()));
    if (!parts_.group.empty()) check(options_.group, static_cast<int64_t>(parts_.group.size()));
    if (parts_.rows == 0) fail("[{}] data: got no rows, expected some; try another file", file_);
  }

  void check_own() const {
    for (const std::string& name : flat(options_.own))
      if (!used_.count(name))
        fail("[--own] column: got {}, expected one that is used: {}; try {}", printable(name),
             listing({used_.begin(), used_.end()}, 9), printable(*used_.begin()));
  }

  const TrainOptions& options_;
  const DataWanted& wanted_;
  std::string file_;
  Dataset data_;
  std::map<std::string, std::vector<std::string>> said_;
  std::set<std::string> taken_, used_;
  DataParts parts_;
};

/// The fraction that an option's text is, or nullopt for a file.
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

/// A class a row: of bce_with_logits where each is 0 or 1.
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

/// Folds that a column says keep groups together too.
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

/// Statistics of one input over the rows that `index` selects, as a row's mean and deviation: of
/// each feature [F], of each channel [C, 1, ...].
std::pair<Tensor, Tensor> statistics(const Tensor& rows) {
  std::vector<int64_t> over{0};
  for (int64_t d = 2; d < rows.dim(); ++d) over.push_back(d);
  // In pieces: a file of small integers need not be there in float64 at once.
  const int64_t piece = std::max<int64_t>(1, (1 << 22) / std::max<int64_t>(1, rows[0].numel()));
  Tensor sum, squares;
  for (int64_t begin = 0; begin < rows.size(0); begin += piece) {
    const int64_t size = std::min(piece, rows.size(0) - begin);
    const Tensor x = rows.narrow(0, begin, size).to(at::kDouble);
    const Tensor part = x.sum(over, /*keepdim=*/true);
    sum = sum.defined() ? sum + part : part;
  }
  const double count = double(rows.numel()) / double(std::max<int64_t>(1, sum.numel()));
  const Tensor mean = sum / count;
  for (int64_t begin = 0; begin < rows.size(0); begin += piece) {
    const int64_t size = std::min(piece, rows.size(0) - begin);
    const Tensor x = rows.narrow(0, begin, size).to(at::kDouble) - mean;
    const Tensor part = (x * x).sum(over, true);
    squares = squares.defined() ? squares + part : part;
  }
  const Tensor std = (squares / count).sqrt();
  return {mean[0], at::where(std == 0, at::ones_like(std), std)[0]};
}

}  // namespace

DataParts read_parts(const TrainOptions& options, const std::string& path, const DataWanted& wanted,
                     RowsTo what) {
  return PartReader(options, path, wanted).read(what);
}

int64_t asked_folds(const TrainOptions& options) {
  if (options.folds == 1 || options.folds < 0)
    fail("[--folds] folds: got {}, expected at least 2; try --folds 5", options.folds);
  return options.folds;
}

TrainingData read_training_data(const TrainOptions& options, const DataWanted& wanted) {
  TrainingData data;
  data.train = read_parts(options, options.data, wanted, RowsTo::learn);
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

  Rows rows = all_rows(data.train.rows);
  if (!options.test.empty()) {
    if (const auto share = fraction_of("--test", options.test)) {
      Split split = hold_back(rows, *share, kinds, options.seed ^ 0x7e57, "--test");
      rows = std::move(split.train);
      data.test = std::move(split.held);
    } else {
      data.test_file = read_parts(options, options.test, wanted, RowsTo::hold);
      data.test = all_rows(data.test_file->rows);
    }
  }
  if (folded) {
    if (!options.fold.empty()) {
      data.fold_of.assign(static_cast<size_t>(data.train.rows), -1);
      for (const int64_t row : rows)
        data.fold_of[static_cast<size_t>(row)] = data.train.fold[static_cast<size_t>(row)];
      data.folds = 1 + *std::max_element(data.train.fold.begin(), data.train.fold.end());
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
      Split split = hold_back(rows, *share, kinds, options.seed, "--validation");
      data.train_rows.push_back(std::move(split.train));
      data.validation.push_back(std::move(split.held));
    } else {
      data.validation_file = read_parts(options, options.validation, wanted, RowsTo::hold);
      data.train_rows.push_back(std::move(rows));
      data.validation.push_back(all_rows(data.validation_file->rows));
    }
  } else {
    data.train_rows.push_back(std::move(rows));
  }
  add_normalization(options, &data);
  return data;
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
    }
    data->normalization.push_back(std::move(n));
  }
}

std::function<void(int64_t, const Tensor&)> preparation(const TrainingData& data,
                                                        const std::string& input,
                                                        const std::vector<int64_t>& group) {
  for (const Normalization& n : data.normalization) {
    if (n.input != input) continue;
    return [n, group](int64_t model, const Tensor& rows) {
      const int64_t g = n.mean.size(0) == 1 || model < 0 ? 0 : group.at(static_cast<size_t>(model));
      // In float64 as the statistics are: what a user's own code gives.
      rows.copy_((rows.to(at::kDouble) - n.mean[g]) / n.std[g]);
    };
  }
  return {};
}

}  // namespace wide
