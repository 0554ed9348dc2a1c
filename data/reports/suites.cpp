#include "data/reports/suites.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "data/bytes/csv.h"
#include "data/escape.h"
#include "data/plot/scale.h"
#include "data/reports/suite_rows.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/widen/target.h"

namespace wide {
namespace {

using Cells = std::vector<std::string>;

struct Table {
  Cells head;
  std::vector<Cells> rows;

  std::string csv() const {
    std::string out = line(head);
    for (const Cells& row : rows) out += line(row);
    return out;
  }
  std::string markdown() const {
    std::string out = "|";
    for (const std::string& name : head) out += " " + markdown_escape(name) + " |";
    out += "\n|";
    for (size_t i = 0; i < head.size(); ++i) out += "---|";
    for (const Cells& row : rows) {
      out += "\n|";
      for (const std::string& cell : row) out += " " + markdown_escape(cell) + " |";
    }
    return out + "\n\n";
  }

 private:
  static std::string line(const Cells& cells) {
    std::string out;
    for (size_t i = 0; i < cells.size(); ++i) out += (i == 0 ? "" : ",") + csv_cell(cells[i]);
    return out + "\n";
  }
};

constexpr double kMb = 1024.0 * 1024.0;

std::string ms(double value) { return fmt::format("{:.4f}", value); }
std::string times(double value) { return fmt::format("{:.3f}", value); }

/// A time, or why there is none: "OOM 12.3 GB".
std::string time_or_why(const SuiteCell& cell) {
  if (cell.ok()) return ms(cell.mean_ms);
  const std::string status = suite_status(cell.status);
  return cell.status == Status::oom ? status + " " + bytes_text(double(cell.peak_bytes)) : status;
}

std::string bytes_or_why(const SuiteCell& cell) {
  return cell.peak_bytes > 0 ? bytes_text(double(cell.peak_bytes)) : suite_status(cell.status);
}

std::string speedup_or_why(const SuiteCell& vanilla, const SuiteCell& other) {
  if (vanilla.ok() && other.ok()) return times(vanilla.median_ns / other.median_ns);
  return suite_status(other.ok() ? vanilla.status : other.status);
}

/// "-n4" where that is not one; "-bf16" where that is not single precision.
std::string suffix(const SuiteRow& row) {
  return (row.dtype == "f32" ? "" : "-" + row.dtype) +
         (row.n == 1 ? "" : fmt::format("-n{}", row.n));
}

/// Forms beside vanilla that any of the rows has, in the order they are shown in.
Cells forms_of(const std::vector<SuiteRow>& rows) {
  Cells forms;
  for (const char* form : {"optimised", "torch.compile", "compiled"})
    if (std::any_of(rows.begin(), rows.end(), [&](const SuiteRow& row) {
          return std::any_of(row.cells.begin(), row.cells.end(),
                             [&](const auto& phase) { return phase.second.count(form) > 0; });
        }))
      forms.emplace_back(form);
  return forms;
}

template <class Key>
std::vector<std::pair<std::string, std::vector<SuiteRow>>> files_of(
    const std::vector<SuiteRow>& rows, Key key) {
  std::vector<std::pair<std::string, std::vector<SuiteRow>>> files;
  for (const SuiteRow& row : rows) {
    const std::string name = key(row);
    auto file = std::find_if(files.begin(), files.end(),
                             [&](const auto& other) { return other.first == name; });
    if (file == files.end()) file = files.insert(file, {name, {}});
    file->second.push_back(row);
  }
  return files;
}

// ------------------------------------------------------------------------------------ figures

/// Its median, and its quartiles where it was timed here.
void set_time(CurvePoint* p, const SuiteCell& cell) {
  p->value = cell.median_ns;
  if (!cell.timing) return;
  p->low = cell.timing->q1_ns;
  p->high = cell.timing->q3_ns;
}

/// Times, memory or speedups of rows along an axis, a curve for each form.
Figure figure_along(const std::vector<SuiteRow>& rows, const std::string& axis,
                    const std::string& phase, Measure measure) {
  Figure figure;
  figure.measure = measure;
  figure.over = "vanilla";
  Cells forms = forms_of(rows);
  if (measure != Measure::speedup) forms.insert(forms.begin(), "vanilla");
  for (const std::string& form : forms) {
    Curve curve;
    curve.name = curve.strategy = form;
    curve.style = static_cast<int>(figure.curves.size());
    for (const SuiteRow& row : rows) {
      const SuiteCell cell = row.cell(phase, form), vanilla = row.cell(phase, "vanilla");
      CurvePoint p;
      p.n = static_cast<double>(row.axis(axis));
      if (cell.ok() && measure == Measure::time) set_time(&p, cell);
      if (cell.ok() && measure == Measure::memory) p.value = double(cell.peak_bytes);
      if (cell.ok() && vanilla.ok() && measure == Measure::speedup)
        p.value = vanilla.median_ns / cell.median_ns;
      if (!cell.ok() && cell.status == Status::oom)
        figure.notes.push_back(fmt::format("{} at {} is OOM: {} needed by estimate", form,
                                           short_number(p.n), bytes_text(double(cell.peak_bytes))));
      p.about = fmt::format("{} at {}", form, short_number(p.n));
      curve.points.push_back(p);
    }
    std::sort(curve.points.begin(), curve.points.end(),
              [](const CurvePoint& a, const CurvePoint& b) { return a.n < b.n; });
    figure.curves.push_back(std::move(curve));
  }
  return figure;
}

SuitePlots plots_of(std::vector<Figure> figures, const std::string& name,
                    const SweepReport& report) {
  const Environment& e = report.environment;
  for (Figure& figure : figures) figure.errors = false;
  return {name, name,
          fmt::format("{}, {} threads · LibTorch {} · {}", e.cpu, e.threads, e.libtorch, e.date),
          std::move(figures)};
}

bool has_values(const Figure& figure) {
  return std::any_of(figure.curves.begin(), figure.curves.end(), [](const Curve& c) {
    return std::any_of(c.points.begin(), c.points.end(),
                       [](const CurvePoint& p) { return p.value.has_value(); });
  });
}

// ----------------------------------------------------------------------------- attention-grid

Cells attention_cells(const SuiteRow& row, const std::string& form) {
  const SuiteCell forward = row.cell("forward", form), both = row.cell("backward", form);
  const bool ran = row.cells.count("backward") > 0;
  Cells cells{fmt::format("{}", row.axis("B")), fmt::format("{}", row.axis("T")),
              fmt::format("{}", row.axis("D")), form == "compiled" ? "True" : "False"};
  cells.push_back(forward.ok() ? ms(forward.mean_ms) : "");
  cells.push_back(forward.ok() ? ms(forward.std_ms) : "");
  // A backward pass alone is what the pass in both directions takes beside the forward one.
  const bool apart = forward.ok() && both.ok();
  cells.push_back(apart ? ms(both.mean_ms - forward.mean_ms) : "");
  cells.push_back(apart ? ms(std::hypot(both.std_ms, forward.std_ms)) : "");
  cells.push_back(both.ok() ? ms(both.mean_ms) : "");
  cells.push_back(
      fmt::format("{:.1f}", double(std::max(forward.peak_bytes, both.peak_bytes)) / kMb));
  cells.push_back(suite_status(forward.ok() && ran ? both.status : forward.status));
  return cells;
}

void add_attention(const SweepReport& report, SuitePages* pages, std::string* page) {
  const auto key = [](const SuiteRow& row) {
    return std::string("attention-grid") + (row.axis("causal") ? "-causal" : "") + suffix(row);
  };
  for (const auto& [name, rows] : files_of(suite_rows(report, {"naive_attention"}), key)) {
    Table table{
        {"batch_size", "seq_len", "d_model", "compiled", "forward_mean_ms", "forward_std_ms",
         "backward_mean_ms", "backward_std_ms", "total_mean_ms", "peak_memory_mb", "status"},
        {}};
    Table speedups{{"d_model", "seq_len", "forward", "forward and backward", "memory", "samples"},
                   {}};
    std::set<int64_t> widths;
    for (const SuiteRow& row : rows) {
      for (const char* form : {"vanilla", "compiled"})
        table.rows.push_back(attention_cells(row, form));
      widths.insert(row.axis("D"));
      const auto over = [&](const char* phase) {
        const SuiteCell compiled = row.cell(phase, "compiled");
        return speedup_or_why(row.cell(phase, "vanilla"), compiled) +
               (compiled.ok() ? " (" + ms(compiled.mean_ms) + " ms)" : "");
      };
      const bool both = row.cells.count("backward") && row.cell("backward", "compiled").ok();
      const char* phase = both ? "backward" : "forward";
      const SuiteCell a = row.cell(phase, "vanilla"), b = row.cell(phase, "compiled");
      speedups.rows.push_back({fmt::format("{}", row.axis("D")), fmt::format("{}", row.axis("T")),
                               over("forward"), over("backward"),
                               bytes_or_why(a) + " to " + bytes_or_why(b),
                               fmt::format("{} and {}", a.samples, b.samples)});
    }
    pages->files.push_back({name + ".csv", table.csv()});
    *page += "## " + name + "\n\nSpeedups are compiled over vanilla.\n\n" + speedups.markdown();
    std::vector<Figure> figures;
    for (const Measure measure : {Measure::time, Measure::speedup, Measure::memory})
      for (const char* phase : {"forward", "backward"})
        for (const int64_t width : widths) {
          std::vector<SuiteRow> own;
          for (const SuiteRow& row : rows)
            if (row.axis("D") == width && row.cells.count(phase)) own.push_back(row);
          if (own.empty()) continue;
          Figure figure = figure_along(own, "T", phase, measure);
          figure.title = fmt::format("attention, d_model {}", width);
          figure.subtitle = std::string(phase) == "backward" ? "forward and backward" : "forward";
          figure.axis = "seq_len";
          figures.push_back(std::move(figure));
        }
    pages->plots.push_back(plots_of(std::move(figures), name, report));
  }
}

// -------------------------------------------------------------------------- transformer-sizes

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
    if (compiled.ok() && vanilla.ok()) p.value = vanilla.median_ns / compiled.median_ns;
    curve.name = curve.strategy = fmt::format("context {}", row.axis("T"));
    p.about = curve.name + ", " + size;
    curve.points.push_back(p);
  }
  for (auto& [context, curve] : curves) {
    curve.style = static_cast<int>(figure.curves.size());
    std::sort(curve.points.begin(), curve.points.end(),
              [](const CurvePoint& a, const CurvePoint& b) { return a.n < b.n; });
    figure.curves.push_back(std::move(curve));
  }
  return figure;
}

void add_transformers(const SweepReport& report, SuitePages* pages, std::string* page) {
  const std::vector<std::pair<std::string, std::string>> phases{
      {"forward", "forward"}, {"fwd_bwd", "backward"}, {"full_step", "step"}};
  const auto key = [](const SuiteRow& row) { return "transformer-sizes" + suffix(row); };
  for (const auto& [name, rows] : files_of(suite_rows(report, {"language_model"}), key)) {
    Table table{{"model_size", "context_length", "num_params", "num_params_millions"}, {}};
    const bool peer = forms_of(rows).front() == "torch.compile";
    for (const auto& [column, phase] : phases)
      for (const char* what : {"_vanilla_ms", "_compiled_ms", "_speedup"})
        table.head.push_back(column + what);
    Table peers{{"model_size", "context_length", "phase", "torch.compile ms", "compiled over it"},
                {}};
    for (const SuiteRow& row : rows) {
      const int64_t parameters = parameters_of(row);
      Cells cells{size_name(row), fmt::format("{}", row.axis("T")), fmt::format("{}", parameters),
                  fmt::format("{:.2f}", double(parameters) * 1e-6)};
      for (const auto& [column, phase] : phases) {
        const SuiteCell vanilla = row.cell(phase, "vanilla"),
                        compiled = row.cell(phase, "compiled");
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
    pages->files.push_back({name + ".csv", table.csv()});
    *page += "## " + name + "\n\nMean milliseconds.\n\n" + table.markdown();
    if (peer && !peers.rows.empty()) *page += peers.markdown();
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
    pages->plots.push_back(plots_of(std::move(figures), name, report));
  }
}

// --------------------------------------------------------------------------------- components

/// The rows of each component along its forms, each a step up.
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
      if (cell.ok() && measure == Measure::time) set_time(&p, cell);
      if (cell.ok() && measure == Measure::memory) p.value = double(cell.peak_bytes);
      if (cell.ok() && naive.ok() && measure == Measure::speedup)
        p.value = naive.median_ns / cell.median_ns;
      p.about = curve.name + ", " + figure.places[i];
      curve.points.push_back(p);
    }
  }
  return figure;
}

void add_components(const SweepReport& report, SuitePages* pages, std::string* page) {
  const std::vector<std::string> targets{"naive_mha", "naive_block", "naive_layernorm",
                                         "naive_linears"};
  const auto key = [](const SuiteRow& row) { return "components" + suffix(row); };
  for (const auto& [name, rows] : files_of(suite_rows(report, targets), key)) {
    Table table{
        {"component", "form", "time_ms", "std_ms", "samples_per_s", "speedup", "error", "status"},
        {}};
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
            if (t.correctness && &t.timing == cell.timing)
              error = error_text(t.correctness->max_rel);
        table.rows.push_back({row.target.substr(6), form == "vanilla" ? "naive" : form,
                              time_or_why(cell), cell.ok() ? ms(cell.std_ms) : "",
                              cell.ok() ? fmt::format("{:.1f}", samples / cell.mean_ms * 1e3) : "",
                              speedup_or_why(naive, cell), error, suite_status(cell.status)});
      }
      if (of_case != row.cases.end() && !of_case->second->explanation.empty())
        why += fmt::format("- {}: {}\n", row.target.substr(6),
                           markdown_escape(of_case->second->explanation));
    }
    pages->files.push_back({name + ".csv", table.csv()});
    *page += "## " + name + "\n\nSpeedups are over the naive form.\n\n" + table.markdown();
    if (!why.empty()) *page += why + "\n";
    Cells forms = forms_of(rows);
    forms.insert(forms.begin(), "vanilla");
    std::vector<Figure> figures;
    for (const Measure measure : {Measure::time, Measure::speedup, Measure::memory})
      if (Figure figure = figure_of_forms(rows, forms, measure); has_values(figure))
        figures.push_back(std::move(figure));
    pages->plots.push_back(plots_of(std::move(figures), name, report));
  }
}

}  // namespace

SuitePages suite_pages(const SweepReport& report) {
  SuitePages pages;
  std::string page =
      fmt::format("# {}\n\n{}, {} threads, LibTorch {}, {}.\n\n", markdown_escape(report.name),
                  markdown_escape(report.environment.cpu), report.environment.threads,
                  report.environment.libtorch, markdown_escape(report.environment.date));
  add_attention(report, &pages, &page);
  add_transformers(report, &pages, &page);
  add_components(report, &pages, &page);
  if (pages.files.empty())
    fail(
        "[--csv-suite] sweep: got {}, expected cases of naive_attention, language_model or the "
        "components; try workbench sweep attention-grid",
        printable(report.name));
  if (const std::string text = disturbed_text(report.cases); !text.empty())
    page += markdown_escape(text) + "\n";
  pages.files.push_back({"suite.md", page});
  return pages;
}

}  // namespace wide
