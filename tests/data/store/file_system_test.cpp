// Stores on network file systems, whose numbers are those of Linux's own headers where it has them.
#include "data/store/file_system.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <linux/magic.h>

#include <filesystem>

#include "tests/data/store/stored.h"
#include "tests/scratch.h"

namespace wide::file_system_test {
namespace {

std::string journal_of(const std::string& path) {
  SQLite::Database db(path, SQLite::OPEN_READONLY);
  return db.execAndGet("PRAGMA journal_mode").getString();
}

TEST(StoreFileSystem, NetworksAreKnownByTheirNumbers) {
  EXPECT_EQ(network_file_system(NFS_SUPER_MAGIC), "NFS");
  EXPECT_EQ(network_file_system(SMB_SUPER_MAGIC), "SMB");
  EXPECT_EQ(network_file_system(CIFS_SUPER_MAGIC), "CIFS");
  EXPECT_EQ(network_file_system(static_cast<int32_t>(CIFS_SUPER_MAGIC)), "CIFS") << "with a sign";
  EXPECT_EQ(network_file_system(CEPH_SUPER_MAGIC), "Ceph");
  EXPECT_EQ(network_file_system(AFS_SUPER_MAGIC), "AFS");
  EXPECT_EQ(network_file_system(FUSE_SUPER_MAGIC), "FUSE");
  EXPECT_EQ(network_file_system(0x0BD00BD0), "Lustre");
  for (const int64_t local :
       std::initializer_list<int64_t>{EXT4_SUPER_MAGIC, BTRFS_SUPER_MAGIC, XFS_SUPER_MAGIC,
                                      TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC, 0})
    EXPECT_EQ(network_file_system(local), "") << local;
  const Scratch folder;
  EXPECT_NE(file_system_magic(folder / "no.db"), 0) << "it is the folder's";
  EXPECT_EQ(file_system_magic("/no/such/folder/no.db"), 0);
}

TEST(StoreFileSystem, OnANetworkTheJournalIsDeleted) {
  const Scratch folder;
  const std::string local = folder / "local.db", remote = folder / "remote.db";
  const auto write = [](const std::string& path, int64_t magic) {
    StoreOptions options;
    options.magic = magic;
    Store store = Store::create(path, options), other = Store::create(path, options);
    const int64_t sweep = store.begin(stored_plan("one", {2, 4}));
    EXPECT_EQ(std::filesystem::exists(path + "-wal"), magic == EXT4_SUPER_MAGIC);
    store.add_case(sweep, 0, stored_case(2, 1));
    EXPECT_EQ(other.missing(sweep), std::vector<int64_t>{1});  // both read what one writes
    store.add_case(sweep, 1, stored_case(4, 2));
    EXPECT_EQ(other.load(sweep).cases.size(), 2u);
    return store.network();
  };
  EXPECT_EQ(write(local, EXT4_SUPER_MAGIC), "");
  EXPECT_EQ(write(remote, NFS_SUPER_MAGIC), "NFS");
  EXPECT_EQ(journal_of(local), "wal");
  EXPECT_EQ(journal_of(remote), "delete");
  EXPECT_EQ(write(local, 0x47504653), "GPFS");  // it was copied there
  EXPECT_EQ(journal_of(local), "delete");
}

}  // namespace
}  // namespace wide::file_system_test
