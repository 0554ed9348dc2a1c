#include "data/store/fusions.h"

#include <nlohmann/json.hpp>

#include "data/reports/report_json.h"
#include "data/store/results.h"
#include "engine/error.h"

namespace wide {
namespace {

void insert_nodes(Connection& connection, int64_t point, const std::vector<CoverageItem>& items) {
  int64_t position = 0;
  for (const CoverageItem& item : items)
    Query(connection,
          "INSERT INTO node(fuse_point, position, node, nodes, operator, module, \"primitive\", "
          "strategy, way, reason) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          point, position++, int64_t{item.node}, int64_t{item.nodes}, item.op, item.module,
          item.primitive, item.strategy, to_string(item.way), item.reason)
        .run();
}

void insert_coverage(Connection& connection, int64_t point, const FuseResult& result) {
  for (const Way way : {Way::strategy, Way::vmap, Way::shared, Way::per_model}) {
    const auto nodes = result.coverage.find(way);
    const auto time = result.coverage_time.find(way);
    Query(connection, "INSERT INTO coverage(fuse_point, way, nodes, time) VALUES(?, ?, ?, ?)",
          point, to_string(way), nodes == result.coverage.end() ? int64_t{0} : nodes->second,
          result.coverage_time.empty()
              ? std::nullopt
              : std::optional<double>(time == result.coverage_time.end() ? 0 : time->second))
        .run();
  }
}

void insert_point(Connection& connection, int64_t fuse, int64_t position, const FuseReport& report,
                  const FuseResult& result) {
  FuseReport one = report;
  one.curve = {result};
  Json json = to_json(one);
  for (const char* of_the_report :
       {"schema", "model", "device", "dtype", "mode", "reduce", "trusted", "environment", "weights",
        "largest_n", "along_n", "coverage", "coverage_time"})
    json.erase(of_the_report);
  Json timings = std::move(json["results"]), correctness = std::move(json["correctness"]);
  json.erase("results");
  json.erase("correctness");
  const int64_t point = insert_row(connection, kFusePoint, {fuse, position}, json);
  insert_coverage(connection, point, result);
  insert_nodes(connection, point, result.items);
  for (size_t i = 0; i < timings.size(); ++i) {
    timings[i].erase("samples_ns");
    insert_timing(connection, {std::nullopt, point, std::nullopt, static_cast<int64_t>(i)},
                  timings[i], result.results[i].samples_ns);
  }
  insert_row(connection, kCorrectness, {std::nullopt, point}, correctness);
}

Json point_object(Connection& connection, int64_t point, Json json) {
  Json coverage = Json::object(), coverage_time;
  Query ways(connection, "SELECT way, nodes, time FROM coverage WHERE fuse_point = ?", point);
  while (ways.step()) {
    coverage[ways.text(0)] = ways.integer(1);
    if (!ways.at(2).isNull()) coverage_time[ways.text(0)] = ways.at(2).getDouble();
  }
  json["coverage"] = coverage;
  json["coverage_time"] = coverage_time;
  json["results"] = Json::array();
  const auto samples = samples_of(connection, "timing.fuse_point = ?", point);
  Query timings(connection, select_rows(kTiming, "WHERE fuse_point = ? ORDER BY position"), point);
  while (timings.step()) {
    json["results"].push_back(row_object(timings, kTiming));
    json["results"].back()["samples_ns"] = samples.at(row_id(timings));
  }
  Query correctness(connection, select_rows(kCorrectness, "WHERE fuse_point = ?"), point);
  if (correctness.step()) json["correctness"] = row_object(correctness, kCorrectness);
  return json;
}

}  // namespace

int64_t insert_fuse(Connection& connection, const FuseReport& report) {
  const int64_t environment = insert_environment(connection, report.environment);
  FuseReport head = report;
  head.curve.clear();
  Json json = to_json(head);
  json.erase("environment");
  const int64_t fuse = insert_row(connection, kFuse, {environment}, json);
  int64_t position = 0;
  for (const FuseResult& result : report.curve)
    insert_point(connection, fuse, position++, report, result);
  return fuse;
}

std::vector<FuseRow> list_fusions(Connection& connection, int64_t limit, int64_t offset) {
  std::vector<FuseRow> rows;
  Query query(connection,
              "SELECT f.id, f.model, f.device, f.dtype, f.mode, e.date, e.host FROM fuse AS f "
              "JOIN environment AS e ON e.id = f.environment ORDER BY f.id DESC LIMIT ? OFFSET ?",
              limit, offset);
  while (query.step()) {
    FuseRow row{query.integer(0), query.text(1), query.text(2), query.text(3),
                query.text(4),    query.text(5), query.text(6), {}};
    Query ns(connection, "SELECT n FROM fuse_point WHERE fuse = ? ORDER BY position", row.id);
    while (ns.step()) row.n.push_back(ns.integer(0));
    rows.push_back(std::move(row));
  }
  return rows;
}

Json read_fuse(Connection& connection, int64_t fuse) {
  Query head(connection, select_rows(kFuse, "WHERE id = ?"), fuse);
  if (!head.step())
    fail(
        "[fusion {}] store: got no such number, expected a stored trial fusion; try workbench "
        "list fusions",
        fuse);
  Json json = row_object(head, kFuse);
  json["environment"] = environment_object(connection, row_key(head, 0).value());
  std::vector<Json> curve;
  Query points(connection, select_rows(kFusePoint, "WHERE fuse = ? ORDER BY position"), fuse);
  while (points.step())
    curve.push_back(point_object(connection, row_id(points), row_object(points, kFusePoint)));
  if (!curve.empty()) json.update(curve.back());
  if (curve.size() > 1) json["curve"] = curve;
  return json;
}

}  // namespace wide
