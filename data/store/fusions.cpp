#include "data/store/fusions.h"

#include <nlohmann/json.hpp>

#include "data/reports/sweep/report_json.h"
#include "data/reports/sweep/report_read.h"
#include "data/store/results.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

Json point_document(const FuseResult& result) {
  Json json = fields_json(result);
  json["nodes"] = Json::array();
  for (const CoverageItem& item : result.items)
    json["nodes"].push_back({item.node, item.nodes, item.op, item.module, item.primitive,
                             item.strategy, to_string(item.way), item.reason});
  return json;
}

Json taken(Json& json, const char* key) {
  Json value = std::move(json.at(key));
  json.erase(key);
  return value;
}

void insert_nodes(Connection& connection, int64_t point, const Json& nodes) {
  int64_t position = 0;
  for (const Json& n : nodes)
    Query(connection,
          "INSERT INTO node(fuse_point, position, node, nodes, operator, module, \"primitive\", "
          "strategy, way, reason) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          point, position++, n.at(0).get<int64_t>(), n.at(1).get<int64_t>(),
          n.at(2).get<std::string>(), n.at(3).get<std::string>(), n.at(4).get<std::string>(),
          n.at(5).get<std::string>(), n.at(6).get<std::string>(), n.at(7).get<std::string>())
        .run();
}

void insert_coverage(Connection& connection, int64_t point, const Json& nodes, const Json& times) {
  for (const auto& [way, count] : nodes.items())
    Query(connection, "INSERT INTO coverage(fuse_point, way, nodes, time) VALUES(?, ?, ?, ?)",
          point, way, count.get<int64_t>(),
          times.is_null() ? std::nullopt : std::optional(times.at(way).get<double>()))
        .run();
}

void insert_point(Connection& connection, int64_t fuse, int64_t position, Json json) {
  const Json nodes = taken(json, "nodes"), coverage = taken(json, "coverage"),
             times = taken(json, "coverage_time");
  Json timings = taken(json, "results"), correctness = taken(json, "correctness");
  const int64_t point = insert_row(connection, kFusePoint, {fuse, position}, json);
  insert_coverage(connection, point, coverage, times);
  insert_nodes(connection, point, nodes);
  for (size_t i = 0; i < timings.size(); ++i) {
    const Json samples = taken(timings[i], "samples_ns");
    insert_timing(connection, {std::nullopt, point, std::nullopt, static_cast<int64_t>(i)},
                  timings[i], samples.get<std::vector<double>>());
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

Json fuse_document(const FuseReport& report) {
  FuseReport head = report;
  head.curve.clear();
  Json document = {{"fusion", to_json(head)}, {"points", Json::array()}};
  for (const FuseResult& result : report.curve)
    document["points"].push_back(point_document(result));
  return document;
}

int64_t insert_fuse(Connection& connection, const Json& document) {
  Json head = document.at("fusion");
  const int64_t environment = insert_environment(connection, taken(head, "environment"));
  const int64_t fuse = insert_row(connection, kFuse, {environment}, head);
  int64_t position = 0;
  for (const Json& point : document.at("points")) insert_point(connection, fuse, position++, point);
  return fuse;
}

std::vector<FuseRow> list_fusions(Connection& connection, int64_t limit, int64_t offset) {
  std::vector<FuseRow> rows;
  Query query(connection,
              "SELECT f.id, f.model, f.device, f.dtype, f.mode, e.date, e.host FROM fuse AS f "
              "JOIN environment AS e ON e.id = f.environment ORDER BY f.id DESC LIMIT ? OFFSET ?",
              limit, offset);
  while (query.step()) {
    FuseRow row;
    query.take(row.id, row.model, row.device, row.dtype, row.mode, row.date, row.host);
    Query ns(connection, "SELECT n FROM fuse_point WHERE fuse = ? ORDER BY position", row.id);
    while (ns.step()) row.n.push_back(ns.integer(0));
    rows.push_back(std::move(row));
  }
  return rows;
}

FuseReport read_fuse(Connection& connection, int64_t fuse) {
  Query head(connection, select_rows(kFuse, "WHERE id = ?"), fuse);
  if (!head.step())
    fail(
        "[fusion {}] store: got no such number, expected a stored fusion; try workbench "
        "list fusions",
        fuse);
  Json json = {{"schema", kReportSchema}};
  json.update(row_object(head, kFuse));
  json["environment"] = environment_object(connection, row_key(head, 0).value());
  std::vector<Json> curve;
  Query points(connection, select_rows(kFusePoint, "WHERE fuse = ? ORDER BY position"), fuse);
  while (points.step())
    curve.push_back(point_object(connection, row_id(points), row_object(points, kFusePoint)));
  if (!curve.empty()) json.update(curve.back());
  if (curve.size() > 1) json["curve"] = curve;
  return fuse_from_json(json, printable(connection.path()), UnknownFields::ignored);
}

}  // namespace wide
