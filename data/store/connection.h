#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "data/store/store.h"

namespace wide {

/// `create` writes, and makes the file if it does not exist; `read` never changes a byte of it.
enum class Access { create, read };

/// An open store file of the newest schema, and its statements. One thread at a time.
class Connection {
 public:
  /// Opens the file. Throws Error with exit code 1 for everything that is wrong with it.
  Connection(const std::string& path, const StoreOptions& options, Access access);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  SQLite::Database& db() { return *db_; }
  const std::string& path() const { return path_; }

  /// Runs `work` in one transaction that holds the write lock from its start. When this returns,
  /// all changes are on disk; when it throws, none are.
  template <class Work>
  auto write(Work&& work) {
    return guarded([&] {
      SQLite::Transaction transaction(*db_, SQLite::TransactionBehavior::IMMEDIATE);
      if constexpr (std::is_void_v<decltype(work())>) {
        work();
        transaction.commit();
      } else {
        auto result = work();
        transaction.commit();
        return result;
      }
    });
  }

  /// Runs `work` on one consistent state of the store, even if others write meanwhile.
  template <class Work>
  auto read(Work&& work) {
    return guarded([&] {
      SQLite::Transaction transaction(*db_, SQLite::TransactionBehavior::DEFERRED);
      return work();
    });
  }

  /// Moves the write-ahead log into the file, so that the file alone is the whole store.
  void leave_wal();
  /// The network file system that the file lies on, such as "NFS"; "" if it is local. On one, the
  /// write-ahead log cannot be used, as it needs memory that all processes share: a rollback
  /// journal takes its place.
  const std::string& network() const { return network_; }

  /// A statement, compiled at its first use and kept.
  SQLite::Statement& statement(const std::string& sql);

 private:
  template <class Work>
  auto guarded(Work&& work) {
    try {
      return work();
    } catch (const SQLite::Exception& e) {
      refuse(e);
    } catch (const nlohmann::json::exception& e) {
      refuse_damaged(e.what());
    } catch (const std::out_of_range&) {
      refuse_damaged("rows that belong to no other");
    } catch (const std::bad_optional_access&) {
      refuse_damaged("rows that name no other");
    }
  }
  void open_to_write();
  void open_to_read();
  int64_t version();  // 0: an empty file; refuses other people's files and newer versions
  void migrate();
  void use_journal();
  [[noreturn]] void refuse(const std::string& got, const std::string& expected,
                           const std::string& advice = "another --db FILE") const;
  [[noreturn]] void refuse_advising(const std::string& got, const std::string& expected,
                                    const std::string& advice) const;
  [[noreturn]] void refuse(const SQLite::Exception& e) const;
  [[noreturn]] void refuse_damaged(const std::string& what) const;

  std::string path_, network_;
  StoreOptions options_;
  std::unique_ptr<SQLite::Database> db_;
  std::map<std::string, std::unique_ptr<SQLite::Statement>> statements_;  // destroyed before db_
};

/// One use of a statement: binds values in order, and resets the statement at the end of its scope.
class Query {
 public:
  template <class... Values>
  Query(Connection& connection, const std::string& sql, const Values&... values)
      : statement_(connection.statement(sql)) {
    (bind(values), ...);
  }
  ~Query() { statement_.tryReset(); }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  template <class T>
  void bind(const T& value) {
    statement_.bind(++bound_, value);
  }
  void bind(std::nullopt_t) { statement_.bind(++bound_); }
  template <class T>
  void bind(const std::optional<T>& value) {
    if (value)
      bind(*value);
    else
      bind(std::nullopt);
  }
  /// The text is not copied: it must live until the statement has run.
  void bind_blob(const void* data, size_t size) {
    statement_.bindNoCopy(++bound_, data, static_cast<int>(size));
  }

  bool step() { return statement_.executeStep(); }
  void run() { statement_.exec(); }
  SQLite::Column at(int column) { return statement_.getColumn(column); }
  int64_t integer(int column) { return at(column).getInt64(); }
  std::string text(int column) { return at(column).getString(); }
  /// The row's columns, from the first on.
  template <class... Values>
  void take(Values&... to) {
    int column = 0;
    (put(at(column++), to), ...);
  }

 private:
  static void put(const SQLite::Column& from, std::string& to) { to = from.getString(); }
  static void put(const SQLite::Column& from, int64_t& to) { to = from.getInt64(); }
  static void put(const SQLite::Column& from, double& to) { to = from.getDouble(); }
  static void put(const SQLite::Column& from, bool& to) { to = from.getInt() != 0; }

  SQLite::Statement& statement_;
  int bound_ = 0;
};

}  // namespace wide
