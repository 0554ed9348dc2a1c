// A field that is described once is in every form of a result: JSON, CSV, schema, store, tables.
#include "data/reports/fields.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "data/reports/run/run_files.h"
#include "data/reports/sweep/report_json.h"
#include "data/reports/sweep/report_read.h"
#include "data/reports/sweep/report_tables.h"
#include "data/store/rows.h"
#include "tests/data/python.h"
#include "tests/data/reports/schema_fields.h"
#include "tests/data/store/stored.h"
#include "tests/data/store/stored_run.h"

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

/// A model of a training run that has learnt to say something more.
struct PlantedModel {
  ModelReport model;
  double planted_hours = 0;
};
void describe(Fields& fields, PlantedModel& planted) {
  describe(fields, planted.model);
  fields.add("planted_hours", planted.planted_hours, {.column = "", .minimum = 0});
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

TEST(Fields, OneLineIsAFieldOfAModelEverywhere) {
  PlantedModel planted;
  planted.model = stored_report(7, 130, "digits", "complete").models.at(5);
  planted.planted_hours = 2.5;
  Json json = fields_json(planted);
  EXPECT_EQ(json.at("planted_hours"), 2.5);
  PlantedModel back;
  read_fields(json, "p.json", UnknownFields::refused,
              [&](Fields& fields) { describe(fields, back); });
  EXPECT_EQ(fields_json(back), json);
  EXPECT_EQ(schema_of<PlantedModel>().at("properties").at("planted_hours"),
            (Json{{"type", {"number", "null"}}, {"minimum", 0}}));
  const Layout layout(
      "planted_model", {"run"},
      [](Fields& fields) {
        PlantedModel any;
        describe(fields, any);
      },
      More::all);
  std::string columns;
  for (const Field& field : layout.fields) columns += field.column + ", ";
  EXPECT_EQ(columns, "model, config, fold, status, at_step, planted_hours, ");
  // The table is that of the CSV and of the page.
  const ReportTable table = models_table(std::vector<Json>{json});
  const auto column = std::find(table.head.begin(), table.head.end(), "planted_hours");
  ASSERT_NE(column, table.head.end());
  EXPECT_EQ(table.rows[0][static_cast<size_t>(column - table.head.begin())].text, "2.5");
  json.erase("planted_hours");
  EXPECT_EQ(
      error_of([&] {
        read_fields(json, "p.json", UnknownFields::refused,
                    [&](Fields& fields) { describe(fields, back); });
      }),
      "[p.json] planted_hours: got nothing, expected a value; try a report that the workbench "
      "wrote");
}

/// Every field has a value of its own.
RunReport full_run() {
  RunReport r = stored_report(5, 130, "digits", "complete");
  r.run.id = "17";
  r.network_fingerprint = "ab12";
  r.device = "cpu";
  r.dtype = "f32";
  r.exact = true;
  r.trusted = true;
  r.optimizer = "adamw";
  r.loss = "mse";
  r.schedule = "cosine";
  r.defaults = {{"epochs", "10"}};
  r.switched = {3, 2};
  r.data = {97, 23, 11, 0, 10, DataColumns{}, "f00d", "beef"};
  r.data.columns->inputs = {{"x", {"a", "b"}}};
  r.settings = {{"order", {"\"shuffled\""}}, {"clip", {"[1,null]"}}};
  r.frozen = {"fc.weight"};
  r.no_decay = 2;
  r.memory = {1000, 200, 3, 2, 5, 70};
  r.recordings = 4;
  r.first_call_ns = 1.5e6;
  r.checked_steps = 3;
  r.loop_seconds = 12.25;
  std::mt19937_64 random(5);
  r.results = {stored_timing("loop", "baseline", random)};
  r.environment = stored_plan("x", {1}).environment;
  for (ModelReport& m : r.models) {
    m.labels = {{"kind", "b"}};
    m.fold = m.number % 2 - 1;
    m.last = {{"loss", 0.5 * double(m.number)}};
    m.test = {{"loss", 0.25 * double(m.number)}, {"accuracy", std::nan("")}};
    if (m.number != 3)
      m.best = BestEvaluation{10 * m.number, {{"loss", 0.125}, {"accuracy", 0.75}}};
  }
  r.events = {{20, 4, "model 4 diverged at step 20"}, {30, -1, "stopped"}};
  r.ensemble = {{{"loss", 0.1}}, {{"loss", 0.2}}};
  r.history = {{10, 0.5, 0.25, {1, 2, std::nan(""), 4, 5}, {{"loss", {5, 4, 3, 2, 1}}}}};
  r.notes = {"a note"};
  return r;
}

TEST(Fields, TrainingRunsComeBackAsTheyWere) {
  const std::string plain = to_json(full_run()).dump();
  Json json = Json::parse(plain);
  EXPECT_EQ(to_json(run_from_json(json, "r.json")).dump(), plain);
  // Each name says its own member, not another's of the same kind.
  const Json members = {{"network", "net.ts"},
                        {"network_fingerprint", "ab12"},
                        {"n", 5},
                        {"steps_per_epoch", 4},
                        {"device", "cpu"},
                        {"dtype", "f32"},
                        {"exact", true},
                        {"trusted", true},
                        {"optimizer", "adamw"},
                        {"loss", "mse"},
                        {"schedule", "cosine"},
                        {"batch", 16},
                        {"no_decay", 2},
                        {"recordings", 4},
                        {"first_call_ns", 1.5e6},
                        {"checked_steps", 3},
                        {"loop_seconds", 12.25}};
  for (const auto& [key, value] : members.items()) EXPECT_EQ(json.at(key), value) << key;
  EXPECT_EQ(json.at("data").at("validation_rows"), 23);
  EXPECT_EQ(json.at("data").at("test_rows"), 11);
  EXPECT_EQ(json.at("data").at("classes"), 10);
  EXPECT_EQ(json.at("data").at("folds"), 0);
  EXPECT_EQ(json.at("memory").at("recomputed"), 5);
  EXPECT_EQ(json.at("memory").at("saved_bytes"), 70);
  EXPECT_EQ(json.at("switched").at("batch_norm"), 2);
  EXPECT_EQ(json.at("models")[0].at("fold"), nullptr);
  EXPECT_EQ(json.at("models")[0].at("test").at("accuracy"), nullptr);
  EXPECT_EQ(json.at("history")[0].at("train_loss")[2], nullptr);
  EXPECT_EQ(json.at("settings").at("clip"), (Json{1, nullptr}));
  // Every field but these is missed by name where it lacks, none becomes a silent zero.
  const std::set<std::string> older{
      "network_fingerprint", "trusted",       "settings",    "memory", "recordings", "ensemble",
      "steps_per_epoch",     "first_call_ns", "loop_seconds"};
  for (const auto& [key, value] : json.items()) {
    Json without = json;
    without.erase(key);
    if (older.count(key))
      EXPECT_EQ(error_of([&] { run_from_json(without, "r.json"); }), "") << key;
    else
      EXPECT_NE(error_of([&] { run_from_json(without, "r.json"); }), "") << key;
  }
  json["models"][2].erase("at_step");
  EXPECT_EQ(error_of([&] { run_from_json(json, "r.json"); }),
            "[r.json: models] at_step: got nothing, expected a value; try a report that the "
            "workbench wrote");
  EXPECT_EQ(error_of([&] {
              run_from_json({{"kind", "sweep"}, {"schema", 1}}, "r.json");
            }),
            "[r.json] report: got sweep, expected a training run's; try another file");
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
  expect_schema("fuse.json", "Report of a fusion; with several N the largest stands at the top",
                fusion, {{"point", schema_of<FuseResult>()}});
  Json run = schema_of<RunReport>();
  Json properties = {{"schema", {{"const", kRunSchema}}}, {"kind", {{"const", "run"}}}};
  properties.update(run["properties"]);
  for (const char* list : {"models", "configs"}) properties[list]["minItems"] = 1;
  run["properties"] = std::move(properties);
  run["required"].insert(run["required"].begin(), {"schema", "kind"});
  expect_schema("run.json", "Report of a training run", run,
                {{"model", schema_of<ModelReport>()},
                 {"config", schema_of<ConfigSummary>()},
                 {"spread", schema_of<Spread>()}});
}

}  // namespace
}  // namespace fields_test
}  // namespace wide
