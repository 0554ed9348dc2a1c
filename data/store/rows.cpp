#include "data/store/rows.h"

#include <SQLiteCpp/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sqlite3.h>

#include <algorithm>
#include <limits>

#include "data/bytes/json_depth.h"
#include "engine/error.h"

namespace wide {

namespace {

/// Collects the columns of what it visits.
class Columns : public Fields {
 public:
  std::vector<Field> take() { return std::move(found_); }

  void visit(const char* name, FieldValue value, const FieldRule& rule) override {
    if (!rule.column) return;
    const std::string column = *rule.column ? rule.column : name;
    std::string pointer;
    for (const std::string& outer : open_) pointer += "/" + outer;
    pointer += std::string("/") + name;
    if (std::holds_alternative<Interval*>(value)) {
      found_.emplace_back(column + "_low", pointer + "/0");
      found_.emplace_back(column + "_high", pointer + "/1");
    } else {
      found_.emplace_back(column, pointer, std::holds_alternative<bool*>(value));
    }
  }
  bool begin(const char* name, bool, const FieldRule& rule) override {
    if (rule.own_table) return false;
    open_.push_back(name);
    return true;
  }
  void end() override { open_.pop_back(); }
  std::optional<size_t> begin_list(const char*, size_t, const FieldRule&) override { return {}; }
  void begin_item() override {}
  void rest(FieldValue, const FieldRule&) override {}
  std::optional<std::vector<std::string>> begin_map(const char*, const std::vector<std::string>&,
                                                    const FieldRule&) override {
    return {};
  }
  bool fills() const override { return true; }

 private:
  std::vector<std::string> open_;
  std::vector<Field> found_;
};

template <class Struct>
void all_fields(Fields& fields) {
  Struct any{};
  describe(fields, any);
}
template <class Struct>
void own_fields(Fields& fields) {
  Struct any{};
  describe_own(fields, any);
}

}  // namespace

Field::Field(std::string name, const std::string& pointer, bool is_boolean)
    : column(std::move(name)), at(pointer), boolean(is_boolean) {
  Json::json_pointer top = at;
  while (!top.parent_pointer().empty()) top = top.parent_pointer();
  outer = top.back();
  nested = top != at;
}

Layout::Layout(const char* name, std::vector<const char*> key_columns,
               const std::function<void(Fields&)>& visit, More what_more)
    : table(name), keys(std::move(key_columns)), more(what_more) {
  Columns columns;
  visit(columns);
  fields = columns.take();
}

const Layout kEnvironment("environment", {}, all_fields<Environment>);
// Inserted when the sweep begins; results only add fields to `more`.
const Layout kCase("\"case\"", {"sweep", "position"}, all_fields<Case>);
// A trial's JSON includes its timing's fields: those without a column here go to kTiming.
const Layout kTrial("trial", {"\"case\"", "position"}, own_fields<Trial>, More::none);
const Layout kTiming("timing", {"\"case\"", "fuse_point", "trial", "position"}, all_fields<Timing>);
const Layout kCorrectness("correctness", {"trial", "fuse_point"}, all_fields<Correctness>);
const Layout kFuse("fuse", {"environment"}, own_fields<FuseReport>);
const Layout kFusePoint("fuse_point", {"fuse", "position"}, all_fields<FuseResult>);
const Layout kRunModel("run_model", {"run"}, all_fields<ModelReport>, More::all);

namespace {

void bind_json(Query& query, const Json& value) {
  if (value.is_null())
    query.bind(std::nullopt);
  else if (value.is_string())
    query.bind(value.get_ref<const std::string&>());
  else if (value.is_boolean())
    query.bind(value.get<bool>());
  else if (value.is_number_integer())
    query.bind(value.get<int64_t>());
  else if (value.is_number_float())
    query.bind(value.get<double>());
  else
    query.bind(value.dump());
}

Json column_json(const SQLite::Column& column, bool boolean) {
  if (column.isNull()) return nullptr;
  if (boolean) return column.getInt() != 0;
  if (column.isInteger()) return column.getInt64();
  if (column.isFloat()) return column.getDouble();
  return column.getString();
}

/// Removes a value, and the objects around it that become empty.
void take(Json& object, const Json::json_pointer& at) {
  if (!object.contains(at)) return;
  const Json::json_pointer above = at.parent_pointer();
  Json& holder = above.empty() ? object : object[above];
  if (holder.is_object())
    holder.erase(at.back());
  else
    holder[std::stoul(at.back())] = nullptr;  // keeps the indices of the others
  const bool left = std::any_of(holder.begin(), holder.end(), [&](const Json& value) {
    return holder.is_object() || !value.is_null();
  });
  if (!left && !above.empty()) take(object, above);
}

std::vector<std::string> columns(const Layout& layout) {
  std::vector<std::string> names(layout.keys.begin(), layout.keys.end());
  for (const Field& f : layout.fields) names.push_back(f.column);
  if (layout.more != More::none) names.push_back("more");
  return names;
}

std::string insert_sql(const Layout& layout) {
  const std::vector<std::string> names = columns(layout);
  return fmt::format("INSERT INTO {}({}) VALUES({})", layout.table, fmt::join(names, ", "),
                     fmt::join(std::vector<std::string>(names.size(), "?"), ", "));
}

}  // namespace

Json stored_json(const std::string& text) {
  try {
    check_json_depth(text, "");
  } catch (const Error&) {
    throw SQLite::Exception("JSON that is nested too deeply", SQLITE_CORRUPT);
  }
  return Json::parse(text);
}

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void take_fields(const Layout& layout, Json& object) {
  for (const Field& f : layout.fields) take(object, f.at);
}

int64_t insert_row(Connection& connection, const Layout& layout, const std::vector<Key>& keys,
                   Json& object) {
  Query insert(connection, insert_sql(layout));
  for (const Key& key : keys) insert.bind(key);
  for (const Field& f : layout.fields)
    if (object.contains(f.at))
      bind_json(insert, object[f.at]);
    else
      insert.bind(std::nullopt);
  if (layout.more == More::all) insert.bind(json_text(object));
  take_fields(layout, object);
  if (layout.more == More::rest) insert.bind(json_text(object));
  insert.run();
  return connection.db().getLastInsertRowid();
}

std::string select_rows(const Layout& layout, const std::string& rest) {
  std::string list = "id";
  for (const std::string& name : columns(layout))
    list += fmt::format(", {}.{}", layout.table, name);
  return fmt::format("SELECT {}.{} FROM {} {}", layout.table, list, layout.table, rest);
}

Json row_object(Query& query, const Layout& layout) {
  Json object = Json::object();
  int column = 1 + static_cast<int>(layout.keys.size());
  const int first = column;
  // A nested object all of whose columns are NULL was null itself.
  std::map<std::string, bool> known;
  for (const Field& f : layout.fields) known[f.outer] |= !query.at(column++).isNull();
  column = first;
  for (const Field& f : layout.fields) {
    Json value = column_json(query.at(column++), f.boolean);
    if (f.nested && !known[f.outer])
      object[f.outer] = nullptr;
    else if (f.nested && value.is_null())
      object[f.at] = std::numeric_limits<double>::quiet_NaN();  // SQLite stores it as NULL
    else
      object[f.at] = std::move(value);
  }
  if (layout.more != More::none) object.update(stored_json(query.text(column)), true);
  return object;
}

int64_t row_id(Query& query) { return query.integer(0); }

Key row_key(Query& query, size_t i) {
  const SQLite::Column column = query.at(1 + static_cast<int>(i));
  if (column.isNull()) return std::nullopt;
  return column.getInt64();
}

}  // namespace wide
