#include "data/store/connection.h"

#include <SQLiteCpp/Backup.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "data/store/file_system.h"
#include "data/store/schema.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

constexpr uintmax_t kIndexBytes = 32768;  // the least that SQLite's index of its log takes

/// A URI with which SQLite opens the file as one that nobody changes.
std::string uri(const std::string& path) {
  std::string out = "file:";
  for (const unsigned char c : std::filesystem::absolute(path).string())
    out += std::isalnum(c) || std::strchr("/._-", c) ? std::string(1, static_cast<char>(c))
                                                     : fmt::format("%{:02X}", c);
  return out + "?immutable=1";
}

/// A write beyond the shell's file size limit must fail instead of killing the process.
void survive_file_size_limit() {
  struct sigaction now {};
  if (sigaction(SIGXFSZ, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
    std::signal(SIGXFSZ, SIG_IGN);
}

/// Why the file could not be opened; SQLite itself does not say.
std::string why_not_opened(const std::string& path) {
  std::error_code error;
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  if (std::filesystem::is_directory(path, error)) return "a folder";
  if (!std::filesystem::is_directory(folder, error)) return "no such folder as " + folder;
  if (std::filesystem::exists(path, error) && access(path.c_str(), R_OK) != 0)
    return std::strerror(errno);
  return access(folder.c_str(), W_OK) == 0 ? "a file that cannot be opened"
                                           : "a read-only file or folder";
}

/// SQLite reports a plain I/O error for the limit of `ulimit -f`, and for a full disk if the file
/// that does not fit is the index of its write-ahead log (-shm). This names the cause.
std::string why_not_written(const SQLite::Exception& e, const std::string& path) {
  const int code = e.getExtendedErrorCode();
  if (code != SQLITE_IOERR_WRITE && code != SQLITE_IOERR_SHMSIZE) return e.what();
  std::error_code error;
  const auto space = std::filesystem::space(std::filesystem::absolute(path).parent_path(), error);
  if (!error && space.available < kIndexBytes) return "a full disk";
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    return fmt::format("the end of the file size that ulimit -f allows, {}",
                       bytes_text(static_cast<double>(limit.rlim_cur)));
  return e.what();
}

}  // namespace

Connection::Connection(const std::string& path, const StoreOptions& options, Access access)
    : path_(path), options_(options) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::is_other(status))  // opening a pipe would block
    refuse("no regular file", "one");
  network_ = network_file_system(options.magic ? options.magic : file_system_magic(path));
  survive_file_size_limit();  // readers write too: the shared index of the log
  guarded([&] { access == Access::create ? open_to_write() : open_to_read(); });
}

Connection::~Connection() { statements_.clear(); }

void Connection::open_to_write() {
  db_ = std::make_unique<SQLite::Database>(path_, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE,
                                           options_.busy_ms);
  const int64_t found = version();
  if (sqlite3_db_readonly(db_->getHandle(), "main"))
    throw SQLite::Exception("read-only", SQLITE_READONLY);
  use_journal();
  db_->exec(fmt::format("PRAGMA synchronous = {}; PRAGMA foreign_keys = ON",
                        options_.durable ? "FULL" : "NORMAL"));
  if (options_.max_pages > 0)
    db_->exec(fmt::format("PRAGMA max_page_count = {}", options_.max_pages));
  if (found < store_version()) migrate();
}

void Connection::open_to_read() {
  std::error_code error;
  const auto status = std::filesystem::status(path_, error);
  if (!std::filesystem::exists(status))
    refuse("no such file", "stored results", "workbench --sweep quick, or another --db FILE");
  int64_t found = 0;
  try {
    db_ = std::make_unique<SQLite::Database>(path_, SQLite::OPEN_READONLY, options_.busy_ms);
    found = version();
  } catch (const SQLite::Exception& e) {
    // SQLite keeps files beside the store to coordinate readers and writers, and cannot make them
    // in a read-only folder. Without writers they are not needed, unless a write was cut short.
    const int code = e.getErrorCode() & 0xff;
    if (code != SQLITE_CANTOPEN && code != SQLITE_READONLY) throw;
    if (std::filesystem::exists(path_ + "-wal", error) &&
        std::filesystem::file_size(path_ + "-wal", error) > 0)
      throw;
    db_ = std::make_unique<SQLite::Database>(uri(path_), SQLite::OPEN_READONLY | SQLite::OPEN_URI,
                                             options_.busy_ms);
    found = version();
  }
  if (found == store_version()) return;
  // A store of an older version is migrated in memory.
  auto copy = std::make_unique<SQLite::Database>(":memory:", SQLite::OPEN_READWRITE);
  SQLite::Backup(*copy, *db_).executeStep();
  db_ = std::move(copy);
  migrate();
  db_->exec("PRAGMA query_only = ON");
}

int64_t Connection::version() {
  // One statement, so that the three values belong together while another process makes the file.
  SQLite::Statement read(*db_,
                         "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)"
                         " FROM pragma_application_id, pragma_user_version");
  read.executeStep();
  const int64_t id = read.getColumn(0).getInt64(), found = read.getColumn(1).getInt64(),
                tables = read.getColumn(2).getInt64();
  if (id != kStoreId && (id != 0 || found != 0 || tables != 0))
    refuse("an SQLite file of another program", "one of workbench");
  if (found > store_version())
    refuse_advising(fmt::format("schema {}", found), fmt::format("at most {}", store_version()),
                    std::string("the newer workbench that wrote it") +
                        (options_.advice.empty() ? ", or another --db FILE" : ""));
  return found;
}

void Connection::migrate() {
  SQLite::Transaction transaction(*db_, SQLite::TransactionBehavior::IMMEDIATE);
  // Another process may have migrated it while this one waited for the lock.
  for (int64_t v = version(); v < store_version(); ++v)
    db_->exec(store_migrations().at(static_cast<size_t>(v)));
  db_->exec(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kStoreId,
                        store_version()));
  transaction.commit();
}

void Connection::use_journal() {
  const std::string wanted = network_.empty() ? "wal" : "delete";
  // SQLite does not wait for other processes when it changes the journal mode.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.busy_ms);
  while (db_->execAndGet("PRAGMA journal_mode").getString() != wanted) {
    const int code = db_->tryExec("PRAGMA journal_mode = " + wanted) & 0xff;
    if (code == SQLITE_BUSY && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    else if (code != SQLITE_OK)
      throw SQLite::Exception(db_->getHandle(), code);
    else
      break;  // no shared memory here: keep its journal
  }
}

void Connection::leave_wal() {
  statements_.clear();
  guarded([&] { db_->exec("PRAGMA journal_mode = DELETE"); });
}

SQLite::Statement& Connection::statement(const std::string& sql) {
  auto& slot = statements_[sql];
  if (!slot) slot = std::make_unique<SQLite::Statement>(*db_, sql);
  slot->tryReset();
  return *slot;
}

void Connection::refuse_damaged(const std::string& what) const {
  refuse(fmt::format("a damaged file ({})", printable(what)), "stored results",
         "sqlite3 FILE .recover, or another --db FILE");
}

void Connection::refuse(const std::string& got, const std::string& expected,
                        const std::string& advice) const {
  refuse_advising(got, expected, options_.advice.empty() ? advice : options_.advice);
}

void Connection::refuse_advising(const std::string& got, const std::string& expected,
                                 const std::string& advice) const {
  throw Error(fmt::format("[{}] store: got {}, expected {}; try {}",
                          printable(options_.shown.empty() ? path_ : options_.shown), got, expected,
                          advice),
              1);
}

void Connection::refuse(const SQLite::Exception& e) const {
  switch (e.getErrorCode() & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      refuse(fmt::format("a lock that another process held for {:.3g} s", options_.busy_ms / 1e3),
             "the store to be free", "again later, or another --db FILE");
    case SQLITE_FULL:
      refuse("a full disk", "space for the results; earlier ones are kept");
    case SQLITE_IOERR:
      refuse(printable(std::filesystem::is_directory(path_) ? why_not_opened(path_)
                                                            : why_not_written(e, path_)),
             "to read and write; earlier results are kept");
    case SQLITE_READONLY:
      refuse("a read-only file or folder", "one that can be written");
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      refuse(printable(why_not_opened(path_)),
             "a file that can be opened, and its folder to exist");
    case SQLITE_NOTADB:
      refuse("a file that is no database", "stored results");
    case SQLITE_CORRUPT:
      refuse_damaged(e.what());
    default:
      refuse(printable(e.what()), "stored results");
  }
}

}  // namespace wide
