#include <fmt/format.h>

#include <numeric>

#include "data/escape.h"
#include "data/reports/apart.h"
#include "data/reports/report_format.h"
#include "data/reports/sweep/report_tables.h"

namespace wide::junit_report {
namespace {

/// JUnit's element for a status. A trial that did not finish is no success.
const char* element_of(Status status) {
  switch (ending_of(status)) {
    case Ending::right:
      return "";
    case Ending::incorrect:
      return "failure";
    case Ending::failed:
      return "error";
    case Ending::left_out:
    case Ending::not_finished:
      break;
  }
  return "skipped";
}

double seconds_of(const Timing& t) {
  const double per_call = std::accumulate(t.samples_ns.begin(), t.samples_ns.end(), 0.0);
  return per_call * static_cast<double>(t.calls_per_sample) * 1e-9;
}

std::string property(const char* name, const std::string& value) {
  return fmt::format("   <property name=\"{}\" value=\"{}\"/>\n", name,
                     xml_escape(clean_text(value)));
}

std::string property(const char* name, double value) {
  return property(name, fmt::format("{}", value));
}

std::string testcase(const Case& c, const Trial& t, const Apart& apart) {
  std::string name = fmt::format("{} n={}", t.strategy, c.n);
  for (const std::string& part : {c.shape, c.device, c.dtype, c.mode, c.phase})
    if (!part.empty()) name += " " + part;
  if (apart.several()) name += " " + apart.of(c);
  std::string out = fmt::format(
      "  <testcase classname=\"{}\" name=\"{}\" time=\"{:.6f}\">\n  <properties>\n",
      xml_escape(clean_text(c.target)), xml_escape(clean_text(name)), seconds_of(t.timing));
  out += property("status", to_string(t.status));
  if (!t.timing.samples_ns.empty()) out += property("median_ns", t.timing.median_ns);
  if (c.disturbed) out += property("disturbed", c.other_load);
  if (!c.machine.empty()) out += property("machine", c.machine);
  if (t.correctness) out += property("max_rel", t.correctness->max_rel);
  if (t.status == Status::ok && t.speedup) {
    if (const auto& loop = t.speedup->vs_loop) out += property("vs_loop", loop->value);
    out += property("vs_best_baseline", t.speedup->vs_best.value);
    out += property("verdict", t.verdict);
  }
  out += "  </properties>\n";
  const std::string element = element_of(t.status);
  const std::string message = xml_escape(clean_text(t.reason));
  if (element == "skipped")
    out += fmt::format("   <skipped message=\"{}\"/>\n",
                       message.empty() ? to_string(t.status) : message);
  else if (!element.empty())
    out += fmt::format("   <{0} type=\"{1}\" message=\"{2}\"/>\n", element, to_string(t.status),
                       message);
  return out + "  </testcase>\n";
}

struct Counts {
  int64_t tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;
  void add(const Trial& t) {
    const std::string element = element_of(t.status);
    ++tests;
    failures += element == "failure";
    errors += element == "error";
    skipped += element == "skipped";
    seconds += seconds_of(t.timing);
  }
  std::string text() const {
    return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.6f}\"",
                       tests, failures, errors, skipped, seconds);
  }
};

std::string text(const SweepReport& report, const FigureOptions&) {
  Counts all;
  std::string suites;
  const Apart apart(report.cases);
  for (const auto& cases : target_groups(report.cases)) {
    Counts counts;
    std::string body;
    for (const Case& c : cases)
      for (const Trial& t : c.trials) {
        counts.add(t);
        all.add(t);
        body += testcase(c, t, apart);
      }
    suites += fmt::format(
        " <testsuite name=\"{}\" {} timestamp=\"{}\" hostname=\"{}\">\n{} "
        "</testsuite>\n",
        xml_escape(clean_text(cases.front().target)), counts.text(),
        xml_escape(clean_text(report.environment.date)),
        xml_escape(clean_text(report.environment.host)), body);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{}\" {}>\n{}</testsuites>\n",
      xml_escape(clean_text(report.name)), all.text(), suites);
}

const bool registered = add_report_format({"junit", "JUnit XML: a test case per trial", text});

}  // namespace
}  // namespace wide::junit_report
