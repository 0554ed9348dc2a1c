#include "app/train/inputs/parts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "app/train/models/values.h"
#include "data/datasets/dataset.h"
#include "data/escape.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using Names = std::vector<std::string>;

bool has(const Names& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// The option's value as a list; empty if it was not given.
Names one_or_none(const std::string& name) { return name.empty() ? Names{} : Names{name}; }

std::string listed_names(const Names& names) { return listing(names, 9); }

/// Finds the parts of one file.
class PartReader {
 public:
  PartReader(const TrainOptions& options, const std::string& path, const DataWanted& wanted,
             const DataColumns* trained)
      : options_(options),
        wanted_(wanted),
        trained_(trained),
        file_(printable(path)),
        data_(open_dataset(path)),
        own_(named_columns(options.own)) {
    for (const std::string& text : options.columns) {
      const auto [argument, columns] = key_value("--column", text, "ARG=COLUMN");
      said_[argument] = split(columns);
    }
    for (const auto& [argument, columns] : said_) {
      const Names names = names_of(wanted.inputs);
      if (!has(names, argument))
        fail("[--column] argument: got {}, expected one of forward's: {}; try {}={}",
             printable(argument), listed_names(names), names.empty() ? "x" : printable(names[0]),
             printable(columns.empty() ? "x" : columns[0]));
      taken_.insert(columns.begin(), columns.end());
    }
    for (const std::string& name : named_columns(options.target)) taken_.insert(name);
    for (const std::string& name : {options.sample_weight, options.fold, options.group})
      if (!name.empty()) taken_.insert(name);
  }

  DataParts read(RowsTo what) {
    parts_.file = file_;
    parts_.columns.table = data_.table;
    if (trained_) match_with_training(what);
    read_inputs(what);
    if (what != RowsTo::predict && wanted_.loss->needs_target()) read_target();
    if (what != RowsTo::predict && !options_.sample_weight.empty()) {
      parts_.weight = part("weight", {options_.sample_weight}, at::kDouble);
      parts_.columns.weight = {options_.sample_weight};
      if (!parts_.weight->values.ge(0).all().item<bool>())
        fail("[{}] column {}: got weights below 0, expected none; try other weights", file_,
             printable(options_.sample_weight));
    }
    if (what == RowsTo::learn) {
      if (!options_.fold.empty()) parts_.fold = kinds(options_.fold, &parts_.fold_values);
      if (!options_.group.empty()) parts_.group = kinds(options_.group);
      parts_.columns.fold = one_or_none(options_.fold);
      parts_.columns.group = one_or_none(options_.group);
    }
    for (const std::string& name : data_.names())
      if (!used_.count(name)) parts_.columns.left_out.push_back(name);
    if (trained_ && !parts_.columns.left_out.empty())
      parts_.notes.push_back(
          fmt::format("{}: left out {}", file_, listed_names(parts_.columns.left_out)));
    check_rows();
    if (what == RowsTo::learn) check_own();
    return std::move(parts_);
  }

 private:
  /// Whether `columns` are all remaining columns of a table, rather than ones that the user named.
  bool takes_the_rest(const std::string& input, const Names& columns) const {
    const auto said = said_.find(input);
    return columns != (said == said_.end() ? Names{input} : said->second);
  }

  /// Compares this file's column names with those of the training data. Refuses missing columns
  /// and, in a table, additional columns that training would have taken as features.
  void match_with_training(RowsTo what) {
    Names features, wanted;
    bool rest = false;
    for (const auto& [input, columns] : trained_->inputs) {
      features.insert(features.end(), columns.begin(), columns.end());
      if (!wanted_.unread.count(input)) wanted.insert(wanted.end(), columns.begin(), columns.end());
      rest = rest || (trained_->table && takes_the_rest(input, columns));
    }
    if (what == RowsTo::hold)
      for (const Names* more : {&trained_->target, &trained_->weight})
        wanted.insert(wanted.end(), more->begin(), more->end());
    Names missing, additional;
    for (const std::string& name : wanted)
      if (!data_.find(name)) missing.push_back(name);
    if (!missing.empty() && trained_->table != data_.table) {
      by_position_ = true;
      parts_.notes.push_back(
          fmt::format("{}: features are taken by their position: {} no names of single features",
                      file_, data_.table ? "the training data have" : "it has"));
      return;
    }
    Names known = features;
    for (const Names* more : {&trained_->target, &trained_->weight, &trained_->fold,
                              &trained_->group, &trained_->left_out})
      known.insert(known.end(), more->begin(), more->end());
    for (const std::string& name : data_.names())
      if (!has(known, name)) additional.push_back(name);
    if (!missing.empty()) refuse_missing(wanted, missing, additional);
    if (rest && !additional.empty())
      fail(
          "[{}] columns: got {} too, expected no others than the training data have: {}; try to "
          "remove {}",
          file_, listed_names(additional), listed_names(known),
          additional.size() > 1 ? "them" : "it");
  }

  [[noreturn]] void refuse_missing(const Names& wanted, const Names& missing,
                                   const Names& additional) const {
    std::string advice = fmt::format("add {}", missing.size() > 1 ? "them" : "it");
    if (missing.size() == 1 && additional.size() == 1)
      advice = fmt::format("rename {} to {}", printable(additional[0]), printable(missing[0]));
    fail(
        "[{}] columns: got no {}{}, expected all columns of the training data by name: {}; try to "
        "{}",
        file_, listed_names(missing), additional.empty() ? "" : " but " + listed_names(additional),
        listed_names(wanted), advice);
  }

  void read_inputs(RowsTo what) {
    for (const TensorSpec& spec : wanted_.inputs) {
      if (is_left_out(spec)) continue;
      const Names columns = columns_of(spec, what);
      parts_.columns.inputs[spec.name] = columns;
      DataPart p = part(spec.name, columns, std::nullopt);
      if (wanted_.knows_sizes)
        fit(spec, columns.size(), &p);
      else if (data_.table)
        p.values = p.values.to(at::kDouble);
      const at::ScalarType type = wanted_.knows_sizes ? spec.dtype : p.values.scalar_type();
      p.real = c10::isFloatingType(type) || (!wanted_.knows_sizes && type == at::kByte);
      check_finite(p, p.values);
      parts_.inputs.push_back(std::move(p));
    }
    for (size_t i = 0; i < wanted_.inputs.size(); ++i)
      if (const TensorSpec& spec = wanted_.inputs[i]; is_left_out(spec)) {
        Sizes sizes = spec.sizes;
        sizes[0] = parts_.inputs.front().rows();
        DataPart zeros{spec.name, printable(spec.name),
                       at::zeros(sizes, spec.dtype_in(wanted_.dtype))};
        zeros.real = c10::isFloatingType(spec.dtype);
        parts_.inputs.insert(parts_.inputs.begin() + static_cast<ptrdiff_t>(i), std::move(zeros));
      }
  }

  /// Whether the file lacks columns of an input that it need not have.
  bool is_left_out(const TensorSpec& spec) const {
    if (!wanted_.unread.count(spec.name)) return false;
    const auto said = said_.find(spec.name);
    Names columns = said == said_.end() ? Names{spec.name} : said->second;
    if (trained_ && !by_position_) columns = trained_->inputs.at(spec.name);
    return std::ranges::any_of(columns, [&](const auto& c) { return !data_.find(c); });
  }

  Names columns_of(const TensorSpec& spec, RowsTo what) const {
    if (trained_ && !by_position_) return trained_->inputs.at(spec.name);
    if (by_position_ && !data_.table && data_.find(spec.name)) return {spec.name};
    const auto said = said_.find(spec.name);
    const Names wanted = said == said_.end() ? Names{spec.name} : said->second;
    // The input `x` of a table consists of all columns without another meaning.
    if (data_.table && wanted == Names{"x"} && !data_.find("x")) return rest_of_table();
    if (said != said_.end() || data_.find(spec.name)) return wanted;
    if (what == RowsTo::predict)
      fail(
          "[{}] input {}: got no column of this name, expected what forward takes for the answer, "
          "as the data of the run have it; try to name one so",
          file_, printable(spec.name));
    const std::string column = data_.table ? "x" : data_.names()[0];
    fail("[{}] input {}: got no column of this name, expected one of {}; try --column {}{}", file_,
         printable(spec.name), listed_names(data_.names()), shell_word(spec.name + "=" + column),
         data_.table && !data_.find("x") ? ", which is all that have no other meaning" : "");
  }

  /// Checks an input's sizes and dtype against forward's argument.
  void fit(const TensorSpec& spec, size_t columns, DataPart* p) const {
    const bool floating = c10::isFloatingType(spec.dtype);
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

  Names rest_of_table() const {
    Names rest;
    for (const std::string& name : data_.names())
      if (!taken_.count(name) && !(trained_ && has(trained_->target, name))) rest.push_back(name);
    if (named_columns(options_.target).empty() && wanted_.loss->needs_target() && !trained_)
      fail("[{}] target: got none, expected the column that is learned; try --target {}", file_,
           shell_word(data_.names().back()));
    if (rest.empty())
      fail(
          "[{}] input x: got no column, expected at least one besides the target; try more "
          "columns",
          file_);
    return rest;
  }

  void read_target() {
    Names columns = trained_ ? trained_->target : named_columns(options_.target);
    if (columns.empty()) {
      for (const std::string& name : data_.names())
        if (!taken_.count(name) && !used_.count(name)) columns.push_back(name);
      if (columns.size() != 1)
        fail("[{}] target: got {} that it may be, expected one column left; try --target {}", file_,
             columns.empty() ? "no column" : listing(columns, 5),
             columns.empty() ? "y" : shell_word(columns[0]));
    }
    const bool classes = wanted_.loss->classifies();
    parts_.target = part("target", columns, std::nullopt);
    parts_.columns.target = columns;
    Tensor& values = parts_.target->values;
    if (classes && c10::isFloatingType(values.scalar_type()))
      fail("[{}] target {}: got {}, expected whole numbers, the classes, for {}; try --loss mse",
           file_, parts_.target->columns, short_name(values.scalar_type()), wanted_.loss->name);
    values = values.to(classes ? at::kLong : without_rounding(values.scalar_type()));
    if (!classes) check_finite(*parts_.target, values.to(wanted_.dtype));
  }

  /// The network's dtype if it represents all numbers of `type`; otherwise float64: the loss rounds
  /// such targets, metrics read them as they are.
  at::ScalarType without_rounding(at::ScalarType type) const {
    const bool fits = c10::elementSize(type) <= (c10::isFloatingType(type) ? 4 : 2);
    return fits ? wanted_.dtype : at::kDouble;
  }

  DataPart part(const std::string& name, const Names& columns,
                std::optional<at::ScalarType> dtype) {
    used_.insert(columns.begin(), columns.end());
    DataPart p;
    p.name = name;
    p.columns = printable(fmt::format("{}", fmt::join(columns, ",")));
    p.values = data_.joined(columns);
    p.whole = !c10::isFloatingType(p.values.scalar_type());
    if (dtype) p.values = p.values.to(*dtype);
    p.own = std::ranges::any_of(columns, [&](const std::string& c) { return has(own_, c); });
    if (p.own && p.values.dim() < 2)
      fail("[{}] column {}: got {}, expected [N, S, ...] under --own; try it without --own", file_,
           p.columns, sizes_text(p.values.sizes()));
    return p;
  }

  Rows kinds(const std::string& column, std::vector<double>* values_of = nullptr) {
    const Tensor values = part("kind", {column}, at::kDouble).values;
    if (values.dim() != 1)
      fail("[{}] column {}: got {}, expected a number a row; try another column", file_,
           printable(column), sizes_text(values.sizes()));
    const Tensor plain = values.contiguous();
    const double* data = plain.const_data_ptr<double>();
    std::vector<double> distinct(data, data + plain.numel());
    std::ranges::sort(distinct);
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    Rows rows;
    for (int64_t i = 0; i < plain.numel(); ++i)
      rows.push_back(std::lower_bound(distinct.begin(), distinct.end(), data[i]) -
                     distinct.begin());
    if (values_of) *values_of = std::move(distinct);
    return rows;
  }

  /// `values`: the part's, as they are read.
  void check_finite(const DataPart& p, const Tensor& values) const {
    if (!c10::isFloatingType(values.scalar_type())) return;
    const Tensor bad = values.isfinite().logical_not();
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
    for (const DataPart* p : all_parts(parts_)) check(p->columns, p->rows());
    if (!parts_.fold.empty()) check(options_.fold, static_cast<int64_t>(parts_.fold.size()));
    if (!parts_.group.empty()) check(options_.group, static_cast<int64_t>(parts_.group.size()));
    if (parts_.rows == 0) fail("[{}] data: got no rows, expected some; try another file", file_);
  }

  void check_own() const {
    for (const std::string& name : own_)
      if (!used_.count(name))
        fail("[--own] column: got {}, expected one that is used: {}; try {}", printable(name),
             listed_names({used_.begin(), used_.end()}), printable(*used_.begin()));
  }

  const TrainOptions& options_;
  const DataWanted& wanted_;
  const DataColumns* trained_;
  bool by_position_ = false;  // features are matched by position, as the files have no common names
  std::string file_;
  Dataset data_;
  Names own_;
  std::map<std::string, Names> said_;
  std::set<std::string> taken_, used_;
  DataParts parts_;
};

}  // namespace

void take_models(DataParts* parts, int64_t first, int64_t count) {
  for (DataPart* part : all_parts(*parts))
    if (part->own) part->values = part->values.narrow(0, first, count);
}

DataParts read_parts(const TrainOptions& options, const std::string& path, const DataWanted& wanted,
                     RowsTo what, const DataColumns* trained) {
  return PartReader(options, path, wanted, trained).read(what);
}

std::vector<std::string> named_columns(const std::vector<std::string>& texts) {
  Names all;
  for (const std::string& text : texts)
    for (std::string& name : split(text)) all.push_back(std::move(name));
  return all;
}

}  // namespace wide
