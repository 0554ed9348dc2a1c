#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/reports/run/run_fields.h"
#include "data/reports/sweep/report_fields.h"
#include "data/store/connection.h"

namespace wide {

using Json = nlohmann::ordered_json;

/// A column of a table, and where a report's JSON holds its value.
struct Field {
  Field(std::string name, const std::string& pointer, bool is_boolean = false);
  std::string column;
  Json::json_pointer at;
  std::string outer;  // the key at the top of the object
  bool nested;        // the value lies deeper than that
  bool boolean;
};

/// Which fields of an object go into the column `more`.
enum class More {
  none,  // there is no such column
  rest,  // what has no column of its own
  all
};

/// How an object of a report is stored as a row. Fields that people search and sort by have
/// columns; all others go into the column `more` as JSON, so that new fields of reports are never
/// lost.
struct Layout {
  /// The columns are those that the rules of the visited fields name.
  Layout(const char* table, std::vector<const char*> keys,
         const std::function<void(Fields&)>& visit, More more = More::rest);
  const char* table;
  std::vector<const char*> keys;  // columns that are in no report: the owner's id, the position
  std::vector<Field> fields;
  More more;
};

extern const Layout kEnvironment, kCase, kTrial, kTiming, kCorrectness, kFuse, kFusePoint,
    kRunModel;

/// A key's value; nullopt: NULL.
using Key = std::optional<int64_t>;

/// Adds a row, and returns its id. Fields that have columns are removed from `object`; the rest
/// goes into `more`, or stays in `object` if the table has no such column.
int64_t insert_row(Connection& connection, const Layout& layout, const std::vector<Key>& keys,
                   Json& object);
/// Removes the fields that have columns from `object`.
void take_fields(const Layout& layout, Json& object);
/// Parses a column with JSON. Throws, as SQLite does for a damaged file, if it is nested so deeply
/// that copying it recursively would overflow the stack.
Json stored_json(const std::string& text);
/// JSON as text for a column, valid whatever bytes a name contains.
std::string json_text(const Json& json);

/// SELECT id, keys, fields and `more` of a table, then `rest` (WHERE, ORDER BY).
std::string select_rows(const Layout& layout, const std::string& rest);
/// The current row of a query of `select_rows`.
Json row_object(Query& query, const Layout& layout);
int64_t row_id(Query& query);
/// Value of key number `i` of the row.
Key row_key(Query& query, size_t i);

}  // namespace wide
