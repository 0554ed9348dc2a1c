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

/// What the column `more` of a table holds of an object.
enum class More {
  none,  // there is no such column
  rest,  // what has no column of its own
  all
};

/// How an object of a report lies in a table. Columns are what people search and sort by; all else
/// the object holds goes to the column `more`, so nothing that a report learns to say is lost.
struct Layout {
  /// The columns are those that the rules of the visited fields name.
  Layout(const char* table, std::vector<const char*> keys,
         const std::function<void(Fields&)>& visit, More more = More::rest);
  const char* table;
  std::vector<const char*> keys;  // columns that no report holds: whose row it is, its position
  std::vector<Field> fields;
  More more;
};

extern const Layout kEnvironment, kCase, kTrial, kTiming, kCorrectness, kFuse, kFusePoint,
    kRunModel;

/// A key's value; nullopt: NULL.
using Key = std::optional<int64_t>;

/// Adds a row, and returns its id. What `object` holds and the columns have is taken out of it;
/// the rest goes to `more`, or stays in `object` when the table has none.
int64_t insert_row(Connection& connection, const Layout& layout, const std::vector<Key>& keys,
                   Json& object);
/// Takes what the columns have out of `object`.
void take_fields(const Layout& layout, Json& object);
/// What a column holds of JSON. Throws as SQLite does for a damaged file where it nests so deep
/// that copying it, which recurses, would run out of stack.
Json stored_json(const std::string& text);
/// As text of a column: whatever bytes a name holds, the column is valid JSON.
std::string json_text(const Json& json);

/// SELECT id, keys, fields and `more` of a table, then `rest` (WHERE, ORDER BY).
std::string select_rows(const Layout& layout, const std::string& rest);
/// The row a query of `select_rows` stands on.
Json row_object(Query& query, const Layout& layout);
int64_t row_id(Query& query);
/// Value of key number `i` of the row.
Key row_key(Query& query, size_t i);

}  // namespace wide
