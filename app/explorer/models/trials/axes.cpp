#include "app/explorer/models/trials/axes.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "data/reports/sweep/shape_axes.h"

namespace wide {
namespace {

/// The axes of words.
constexpr std::pair<const char*, int32_t TrialRow::*> kWordAxes[] = {
    {"target", &TrialRow::target},  {"strategy", &TrialRow::strategy}, {"mode", &TrialRow::mode},
    {"dtype", &TrialRow::dtype},    {"device", &TrialRow::device},     {"phase", &TrialRow::phase},
    {"machine", &TrialRow::machine}};

/// Sorts the axis's numbers.
void sort_numbers(TableAxis* axis) {
  std::vector<size_t> order(axis->numbers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return axis->numbers[a] < axis->numbers[b]; });
  std::vector<int32_t> place(order.size());
  TableAxis sorted;
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<int32_t>(i);
    sorted.values.push_back(axis->values[order[i]]);
    sorted.numbers.push_back(axis->numbers[order[i]]);
  }
  axis->values = std::move(sorted.values);
  axis->numbers = std::move(sorted.numbers);
  for (int32_t& value : axis->of_row)
    if (value >= 0) value = place[static_cast<size_t>(value)];
}

int32_t number_index(TableAxis* axis, std::map<int64_t, int32_t>* known, int64_t number) {
  const auto [at, fresh] = known->try_emplace(number, static_cast<int32_t>(axis->values.size()));
  if (fresh) {
    axis->values.push_back(std::to_string(number));
    axis->numbers.push_back(static_cast<double>(number));
  }
  return at->second;
}

bool of_shape(const TableAxis& axis) { return !axis.numbers.empty() && axis.name != "N"; }

/// The ratio of the largest to the smallest value.
double length_of(const TableAxis& axis) { return axis.numbers.back() / axis.numbers.front(); }

}  // namespace

std::string TableAxis::label(size_t value) const {
  return numbers.empty() ? values[value] : name + "=" + values[value];
}

std::vector<TableAxis> axes_of(const TrialTable& table) {
  std::vector<TableAxis> axes;
  const size_t count = table.rows.size();
  for (const auto& [name, word] : kWordAxes) {
    TableAxis& axis = axes.emplace_back();
    axis.name = name;
    axis.of_row.resize(count);
    std::map<std::pair<int32_t, bool>, int32_t> known;
    for (size_t i = 0; i < count; ++i) {
      const TrialRow& row = table.rows[i];
      if (word == &TrialRow::machine && table.word(row.*word).empty()) {  // not known
        axis.of_row[i] = -1;
        continue;
      }
      const bool baseline = row.baseline && word == &TrialRow::strategy;
      const auto [at, fresh] =
          known.try_emplace({row.*word, baseline}, static_cast<int32_t>(axis.values.size()));
      if (fresh) axis.values.push_back((baseline ? "baseline " : "") + table.word(row.*word));
      axis.of_row[i] = at->second;
    }
    if (word == &TrialRow::machine && axis.values.empty()) axes.pop_back();
  }
  TableAxis ns;
  ns.name = "N";
  std::map<int64_t, int32_t> known_ns;
  for (const TrialRow& row : table.rows) ns.of_row.push_back(number_index(&ns, &known_ns, row.n));
  axes.push_back(std::move(ns));

  std::vector<TableAxis> shapes;
  std::vector<std::map<int64_t, int32_t>> known;
  std::map<int32_t, std::vector<std::pair<size_t, int32_t>>> of_word;  // axis and value
  for (size_t i = 0; i < count; ++i) {
    const int32_t word = table.rows[i].shape;
    const auto [at, fresh] = of_word.try_emplace(word);
    if (fresh)
      for (const auto& [name, number] : axes_of(table.word(word))) {
        auto axis = std::find_if(shapes.begin(), shapes.end(),
                                 [&n = name](const TableAxis& a) { return a.name == n; });
        if (axis == shapes.end()) {
          axis = shapes.insert(axis, TableAxis{name, {}, {}, std::vector<int32_t>(count, -1)});
          known.emplace_back();
        }
        const auto index = static_cast<size_t>(axis - shapes.begin());
        at->second.push_back({index, number_index(&*axis, &known[index], number)});
      }
    for (const auto& [axis, value] : at->second) shapes[axis].of_row[i] = value;
  }
  for (TableAxis& axis : shapes) axes.push_back(std::move(axis));
  for (TableAxis& axis : axes)
    if (!axis.numbers.empty()) sort_numbers(&axis);
  return axes;
}

const TableAxis* find_axis(const std::vector<TableAxis>& axes, const std::string& name) {
  for (const TableAxis& axis : axes)
    if (axis.name == name) return &axis;
  return nullptr;
}

std::pair<std::string, std::string> matrix_axes(const std::vector<TableAxis>& axes) {
  const TableAxis *targets = find_axis(axes, "target"), *ns = find_axis(axes, "N");
  std::vector<const TableAxis*> long_ones;
  for (const TableAxis& axis : axes)
    if (of_shape(axis) && axis.several() && axis.positive() &&
        axis.values.size() > ns->values.size())
      long_ones.push_back(&axis);
  if (targets->several() || long_ones.size() < 2) return {"target", "N"};
  std::stable_sort(long_ones.begin(), long_ones.end(), [](const TableAxis* a, const TableAxis* b) {
    return length_of(*a) > length_of(*b);
  });
  return {long_ones[1]->name, long_ones[0]->name};
}

std::string plot_axis(const std::vector<TableAxis>& axes) {
  if (find_axis(axes, "N")->several()) return "N";
  const TableAxis* longest = nullptr;
  for (const TableAxis& axis : axes)
    if (of_shape(axis) && axis.several() && axis.positive() &&
        (!longest || length_of(axis) > length_of(*longest)))
      longest = &axis;
  return longest ? longest->name : "N";
}

}  // namespace wide
