#include <fmt/format.h>

#include <cmath>
#include <map>

#include "data/reports/suites/suite.h"
#include "engine/widen/target.h"

namespace wide::transformer_sizes_suite {
namespace {

std::string size_name(const SuiteRow& row) {
  constexpr const char* kNames[] = {"custom", "small", "medium", "large", "xl", "2.7B"};
  const int64_t size = row.axis("size");
  return kNames[size >= 1 && size <= 5 ? size : 0];
}

int64_t parameters_of(const SuiteRow& row) {
  Shape shape;
  for (const auto& [axis, size] : row.axes) shape.set(axis, size);
  int64_t count = 0;
  for (const TensorSpec& t : find_target(row.target).network(shape).tensors)
    if (t.role == Role::parameter) count += c10::multiply_integers(t.sizes);
  return count;
}

/// Speedups of a phase by size, a curve for each context.
Figure figure_of_sizes(const std::vector<SuiteRow>& rows, const std::string& phase) {
  Figure figure;
  figure.measure = Measure::speedup;
  figure.over = "vanilla";
  figure.axis = "size";
  figure.title = "speedup by size";
  std::map<int64_t, Curve> curves;
  for (const SuiteRow& row : rows) {
    const std::string size = size_name(row);
    auto place = std::find(figure.places.begin(), figure.places.end(), size);
    if (place == figure.places.end()) place = figure.places.insert(place, size);
    Curve& curve = curves[row.axis("T")];
    const SuiteCell compiled = row.cell(phase, "compiled"), vanilla = row.cell(phase, "vanilla");
    CurvePoint p;
    p.n = std::exp2(static_cast<double>(place - figure.places.begin()));
    set_value(&p, compiled, vanilla, figure.measure);
    curve.name = curve.strategy = fmt::format("context {}", row.axis("T"));
    p.about = curve.name + ", " + size;
    curve.points.push_back(p);
  }
  for (auto& [context, curve] : curves) {
    curve.style = static_cast<int>(figure.curves.size());
    std::ranges::sort(curve.points, {}, &CurvePoint::n);
    figure.curves.push_back(std::move(curve));
  }
  return figure;
}

SuitePart transformers_part(const std::vector<SuiteRow>& rows) {
  const std::vector<std::pair<std::string, std::string>> phases{
      {"forward", "forward"}, {"fwd_bwd", "backward"}, {"full_step", "step"}};
  ReportTable table({"model_size", "context_length", "num_params", "num_params_millions"});
  const bool peer = forms_of(rows).front() == "torch.compile";
  for (const auto& [column, phase] : phases)
    for (const char* what : {"_vanilla_ms", "_compiled_ms", "_speedup"})
      table.head.push_back(column + what);
  ReportTable peers(
      {"model_size", "context_length", "phase", "torch.compile ms", "compiled over it"});
  for (const SuiteRow& row : rows) {
    const int64_t parameters = parameters_of(row);
    std::vector<TableCell> cells{size_name(row), fmt::format("{}", row.axis("T")),
                                 fmt::format("{}", parameters),
                                 fmt::format("{:.2f}", double(parameters) * 1e-6)};
    for (const auto& [column, phase] : phases) {
      const SuiteCell vanilla = row.cell(phase, "vanilla"), compiled = row.cell(phase, "compiled");
      cells.push_back(time_or_why(vanilla));
      cells.push_back(time_or_why(compiled));
      cells.push_back(speedup_or_why(vanilla, compiled));
      const SuiteCell other = row.cell(phase, "torch.compile");
      if (other.ok())
        peers.rows.push_back(
            {cells[0], cells[1], column, ms(other.mean_ms), speedup_or_why(other, compiled)});
    }
    table.rows.push_back(std::move(cells));
  }
  std::string text = "Mean milliseconds; speedups are of medians.\n\n" + table.markdown();
  if (peer && !peers.rows.empty()) text += peers.markdown();
  std::vector<Figure> figures;
  for (const auto& [column, phase] : phases)
    if (Figure figure = figure_of_sizes(rows, phase); has_values(figure)) {
      figure.subtitle = column;
      figures.push_back(std::move(figure));
    }
  for (const Measure measure : {Measure::time, Measure::memory})
    for (const auto& [column, phase] : phases)
      for (const auto& [size, own] : files_of(rows, size_name)) {
        Figure figure = figure_along(own, "T", phase, measure);
        if (!has_values(figure)) continue;
        figure.title = size;
        figure.subtitle = column;
        figure.axis = "context";
        figures.push_back(std::move(figure));
      }
  return {table, text, std::move(figures)};
}

[[maybe_unused]] const bool registered = add_suite({"transformer-sizes", transformers_part});

}  // namespace
}  // namespace wide::transformer_sizes_suite
