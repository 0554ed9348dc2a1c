// A field that is described once is in every form of a result: JSON, CSV, schema, store.
#include "data/reports/fields.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/reports/report_json.h"
#include "data/reports/report_read.h"
#include "data/reports/report_tables.h"
#include "data/store/rows.h"
#include "tests/data/python.h"
#include "tests/data/reports/schema_fields.h"
#include "tests/data/store/stored.h"

namespace wide {

/// A trial that has learnt to say something more.
struct PlantedTrial {
  Trial trial;
  double planted_ns = 0;
  std::string planted_why;
};
void describe_own(Fields& fields, PlantedTrial& planted) {
  describe_own(fields, planted.trial);
  fields.add("planted_ns", planted.planted_ns, {.column = "", .minimum = 0});
  fields.add("planted_why", planted.planted_why, {.presence = Presence::omitted, .words = "a b"});
}
void describe(Fields& fields, PlantedTrial& planted) {
  describe(fields, planted.trial.timing);
  describe_own(fields, planted);
}

namespace fields_test {
namespace {

using Json = nlohmann::ordered_json;

PlantedTrial planted_trial() {
  PlantedTrial planted;
  std::mt19937_64 random(7);
  planted.trial = stored_case(3, 11).trials.at(0);
  planted.planted_ns = 12.5;
  planted.planted_why = "b";
  return planted;
}

PlantedTrial read_back(const Json& json, UnknownFields unknown = UnknownFields::refused) {
  PlantedTrial back;
  read_fields(json, "p.json", unknown, [&](Fields& fields) { describe(fields, back); });
  return back;
}

TEST(Fields, OneLineIsAFieldOfJson) {
  const Json json = fields_json(planted_trial());
  EXPECT_EQ(json.at("planted_ns"), 12.5);
  EXPECT_EQ(json.at("planted_why"), "b");
  EXPECT_EQ(json.at("median_ns"), planted_trial().trial.timing.median_ns);
  EXPECT_EQ(fields_json(read_back(json)), json);
  PlantedTrial without = planted_trial();
  without.planted_why.clear();
  EXPECT_FALSE(fields_json(without).contains("planted_why"));
  EXPECT_EQ(read_back(fields_json(without)).planted_why, "");
}

TEST(Fields, MissingAndUnknownFieldsAreNamed) {
  Json json = fields_json(planted_trial());
  json.erase("planted_ns");
  EXPECT_EQ(error_of([&] { read_back(json); }),
            "[p.json] planted_ns: got nothing, expected a value; try a report that the workbench "
            "wrote");
  json["planted_ns"] = "fast";
  EXPECT_EQ(error_of([&] { read_back(json); }),
            "[p.json] planted_ns: got \"fast\", expected a number; try a report that the workbench "
            "wrote");
  json = fields_json(planted_trial());
  json["speedup"]["vs_best_baseline"]["vs_moon"] = 1;
  EXPECT_EQ(
      error_of([&] { read_back(json); }),
      "[p.json: speedup: vs_best_baseline] field: got vs_moon, expected one that this version "
      "knows; try the workbench that wrote it");
  EXPECT_EQ(read_back(json, UnknownFields::ignored).planted_ns, 12.5);
  json = fields_json(planted_trial());
  json["speedup"]["vs_loop"]["ci95"].push_back(3);
  EXPECT_EQ(error_of([&] { read_back(json); }),
            "[p.json: speedup: vs_loop: ci95] entries: got 3, expected 2; try a report that the "
            "workbench wrote");
}

TEST(Fields, OneLineIsAColumnOfCsv) {
  Case of_case = stored_case(3, 11);
  const auto row = csv_row(fields_json(of_case), fields_json(planted_trial()));
  const auto value = [&](const std::string& name) {
    std::string found = "no such column";
    for (const auto& [column, text] : row)
      if (column == name) found = text;
    return found;
  };
  EXPECT_EQ(value("planted_ns"), "12.5");
  EXPECT_EQ(value("planted_why"), "b");
  EXPECT_EQ(value("n"), "3");
  // Its head has every column, also those that no row of a report has a value for.
  PlantedTrial empty;
  Case empty_case;
  const Json all = written([&](Fields& fields) { describe(fields, empty); }, Written::all_empty);
  std::vector<std::string> head;
  for (const auto& [column, text] : csv_row(fields_json(empty_case), all)) head.push_back(column);
  for (const char* column : {"planted_ns", "planted_why", "vs_loop_low", "note", "needed_bytes"})
    EXPECT_EQ(std::count(head.begin(), head.end(), column), 1) << column;
}

TEST(Fields, OneLineIsAColumnOrAFieldOfMoreInTheStore) {
  const Scratch scratch;
  Store::create(scratch / "s.db");
  Connection connection(scratch / "s.db", {}, Access::create);
  const Layout layout("planted", {"owner"}, [](Fields& fields) {
    PlantedTrial any;
    describe_own(fields, any);
  });
  std::string columns;
  for (const Field& field : layout.fields) columns += ", " + field.column;
  EXPECT_EQ(columns,
            ", strategy, status, reason, chosen, vs_loop, vs_loop_low, vs_loop_high, vs_best, "
            "vs_best_low, vs_best_high, best_baseline, verdict, planted_ns");
  connection.write([&] {
    Query(connection, "CREATE TABLE planted(id INTEGER PRIMARY KEY, owner" + columns + ", more)")
        .run();
    PlantedTrial planted = planted_trial();
    Json json = written([&](Fields& fields) { describe_own(fields, planted); });
    const Json expected = json;
    const int64_t id = insert_row(connection, layout, {41}, json);
    Query read(connection, select_rows(layout, "WHERE planted.id = ?"), id);
    ASSERT_TRUE(read.step());
    EXPECT_EQ(row_key(read, 0), 41);
    EXPECT_EQ(nlohmann::json(row_object(read, layout)), nlohmann::json(expected));
    Query sql(connection, "SELECT planted_ns, more ->> 'planted_why' FROM planted");
    ASSERT_TRUE(sql.step());
    EXPECT_EQ(sql.at(0).getDouble(), 12.5);
    EXPECT_EQ(sql.text(1), "b");
  });
}

TEST(Fields, OneLineIsAPropertyOfTheSchema) {
  const Json schema = schema_of<PlantedTrial>();
  EXPECT_EQ(schema.at("properties").at("planted_ns"),
            (Json{{"type", {"number", "null"}}, {"minimum", 0}}));
  EXPECT_EQ(schema.at("properties").at("planted_why"), (Json{{"enum", {"a", "b"}}}));
  const Json& required = schema.at("required");
  EXPECT_EQ(std::count(required.begin(), required.end(), "planted_ns"), 1);
  EXPECT_EQ(std::count(required.begin(), required.end(), "planted_why"), 0);
}

FuseReport fusion(size_t ns) {
  FuseReport report;
  std::mt19937_64 random(3);
  report.model = "net.pt2";
  report.device = "cpu";
  report.dtype = "f32";
  report.mode = "default";
  report.environment = stored_plan("x", {1}).environment;
  for (size_t i = 0; i < ns; ++i) {
    FuseResult& r = report.curve.emplace_back();
    r.n = 3 + 4 * static_cast<int64_t>(i);
    r.coverage = {{Way::strategy, 3}, {Way::vmap, 2}};
    if (i == 0) r.coverage_time = {{Way::strategy, 0.75}, {Way::per_model, 0.25}};
    r.fallbacks = {{2, "aten::sort", "no \"batching\" rule"}};
    r.results = {stored_timing("loop", "baseline", random),
                 stored_timing("wide", "candidate", random)};
    r.correctness = stored_correctness(random);
    if (i == 0) r.speedup = speedup_of({r.results[0]}, r.results[1], 0);
    r.passes = {{"split", 0.5, 10, 8, "2 nodes", ""}};
    if (i > 0) r.steps = {{"aten::bmm", "fc1", "linear", "einsum", "[3, 4]", 100, 0.5}};
    r.notes = {"a note"};
    r.plan = "2 ranges\n";
  }
  return report;
}

TEST(Fields, FusionsComeBackAsTheyWere) {
  for (const size_t ns : {1, 2, 3}) {
    FuseReport report = fusion(ns);
    const std::string plain = to_json(report).dump();
    EXPECT_EQ(to_json(fuse_from_json(Json::parse(plain), "f.json")).dump(), plain);
    report.reduce = "vote";
    report.trusted = true;
    report.weights = WeightsLoaded{3, 1000, 900, 100, 1.5e7};
    report.largest_n = 400;
    report.along_n = AlongN{3, 7, 1234.5};
    const std::string full = to_json(report).dump();
    const FuseReport back = fuse_from_json(Json::parse(full), "f.json");
    EXPECT_EQ(to_json(back).dump(), full);
    EXPECT_EQ(back.curve.size(), ns);
    EXPECT_EQ(back.along_n->crossover, 3);
    EXPECT_EQ(back.weights->load_ns, 1.5e7);
  }
  Json json = to_json(fusion(2));
  json["curve"][1].erase("plan");
  EXPECT_EQ(error_of([&] { fuse_from_json(json, "f.json"); }),
            "[f.json: curve] plan: got nothing, expected a value; try a report that the workbench "
            "wrote");
}

/// Compares with data/reports/schema/NAME; WORKBENCH_UPDATE_GOLDEN=1 writes it instead.
void expect_schema(const std::string& name, const std::string& title, Json json, Json definitions) {
  Json document = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"$id", name}, {"title", title}};
  document.update(json);
  if (!definitions.is_null()) document["$defs"] = std::move(definitions);
  const char* source = std::getenv("WORKBENCH_SOURCE");
  ASSERT_NE(source, nullptr);
  const std::string path = std::string(source) + "/data/reports/schema/" + name;
  const std::string text = document.dump(2) + "\n";
  if (std::getenv("WORKBENCH_UPDATE_GOLDEN") != nullptr) return write_text(path, text);
  EXPECT_TRUE(read_text(path) == text)
      << path << ": got another text than the fields give; WORKBENCH_UPDATE_GOLDEN=1 rewrites it";
}

/// A report's own schema: the version of its schema, then its fields.
template <class Report>
Json report_schema() {
  Json json = schema_of<Report>();
  Json properties = {{"schema", {{"const", kReportSchema}}}};
  properties.update(json["properties"]);
  json["properties"] = std::move(properties);
  json["required"].insert(json["required"].begin(), "schema");
  return json;
}

TEST(Fields, TheSchemasOfTheReportsAreTheirFields) {
  Json interval = {{"type", "object"},
                   {"properties",
                    {{"value", {{"type", {"number", "null"}}}},
                     {"ci95", {{"$ref", "common.json#/$defs/ci95"}}}}},
                   {"required", {"value", "ci95"}},
                   {"additionalProperties", false}};
  const Json ends = {{"type", "array"},
                     {"items", {{"type", {"number", "null"}}}},
                     {"minItems", 2},
                     {"maxItems", 2}};
  expect_schema("common.json", "What reports of sweeps and of fusions share", Json::object(),
                {{"interval", interval},
                 {"ci95", ends},
                 {"timing", schema_of<Timing>()},
                 {"correctness", schema_of<Correctness>()},
                 {"environment", schema_of<Environment>()}});
  Json trial = schema_of<Trial>();
  trial["if"] = {{"properties", {{"status", {{"const", "ok"}}}}}};
  trial["else"] = {
      {"properties", {{"speedup", {{"type", "null"}}}, {"verdict", {{"type", "null"}}}}}};
  expect_schema("sweep.json", "Report of a sweep", report_schema<SweepReport>(),
                {{"case", schema_of<Case>()}, {"trial", trial}});
  Json fusion = report_schema<FuseReport>();
  fusion["properties"]["curve"]["minItems"] = 2;
  expect_schema("fuse.json",
                "Report of a trial fusion; with several N the largest stands at the top", fusion,
                {{"point", schema_of<FuseResult>()}});
}

}  // namespace
}  // namespace fields_test
}  // namespace wide
