#include <fmt/format.h>

#include <cmath>
#include <map>

#include "data/escape.h"
#include "data/reports/suites/suite.h"

namespace wide::components_suite {
namespace {

/// A figure with a line for each component along the forms; each form adds one step to the last.
Figure figure_of_forms(const std::vector<SuiteRow>& rows, const Cells& forms, Measure measure) {
  Figure figure;
  figure.title = "components";
  figure.subtitle = "forward";
  figure.axis = "form";
  figure.over = "the naive form";
  figure.measure = measure;
  for (const std::string& form : forms) figure.places.push_back(form == "vanilla" ? "naive" : form);
  std::map<std::string, int> shapes;
  for (const SuiteRow& row : rows) ++shapes[row.target];
  for (const SuiteRow& row : rows) {
    Curve& curve = figure.curves.emplace_back();
    curve.name = row.target.substr(6);
    if (shapes[row.target] > 1) curve.name += " " + row.shape;
    curve.strategy = curve.name;
    curve.style = static_cast<int>(figure.curves.size()) - 1;
    const SuiteCell naive = row.cell("forward", "vanilla");
    for (size_t i = 0; i < forms.size(); ++i) {
      const SuiteCell cell = row.cell("forward", forms[i]);
      CurvePoint p;
      p.n = std::exp2(static_cast<double>(i));
      set_value(&p, cell, naive, measure);
      p.about = curve.name + ", " + figure.places[i];
      curve.points.push_back(p);
    }
  }
  return figure;
}

SuitePart components_part(const std::vector<SuiteRow>& rows) {
  ReportTable table(
      {"component", "form", "time_ms", "std_ms", "samples_per_s", "speedup", "error", "status"});
  std::string why;
  for (const SuiteRow& row : rows) {
    const SuiteCell naive = row.cell("forward", "vanilla");
    const auto of_case = row.cases.find("forward");
    for (const std::string form : {"vanilla", "optimised", "torch.compile", "compiled"}) {
      const SuiteCell cell = row.cell("forward", form);
      if (form == "torch.compile" && !cell.timing) continue;
      const double samples = double(row.axis("B") * row.n);
      std::string error;
      if (form == "compiled" && of_case != row.cases.end())
        for (const Trial& t : of_case->second->trials)
          if (t.correctness && &t.timing == cell.timing) error = error_text(t.correctness->max_rel);
      table.rows.push_back({row.target.substr(6), form == "vanilla" ? "naive" : form,
                            time_or_why(cell), cell.ok() ? ms(cell.std_ms) : "",
                            cell.ok() ? fmt::format("{:.1f}", samples / cell.mean_ms * 1e3) : "",
                            speedup_or_why(naive, cell), error, suite_status(cell.status)});
    }
    if (of_case != row.cases.end() && !of_case->second->explanation.empty())
      why += fmt::format("- {}: {}\n", row.target.substr(6),
                         markdown_escape(of_case->second->explanation));
  }
  if (!why.empty()) why += "\n";
  Cells forms = forms_of(rows);
  forms.insert(forms.begin(), "vanilla");
  std::vector<Figure> figures;
  for (const Measure measure : {Measure::time, Measure::speedup, Measure::memory})
    if (Figure figure = figure_of_forms(rows, forms, measure); has_values(figure))
      figures.push_back(std::move(figure));
  return {
      table,
      "Speedups are of medians, over the naive form; times are means.\n\n" + table.markdown() + why,
      std::move(figures)};
}

[[maybe_unused]] const bool registered = add_suite({"components", components_part});

}  // namespace
}  // namespace wide::components_suite
