#include "app/results/stored_tuning.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

namespace wide::stored_tuning_test {
namespace {

TuningKey key_of(const std::string& scope) {
  return {scope, "linear", "bias", "3,5 7,5 7", "f32", "cpu", 2, 11};
}

class StoredTuningTest : public ::testing::Test {
 protected:
  void SetUp() override { remove_files(); }
  void TearDown() override { remove_files(); }
  void remove_files() const {
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(db_ + end);
  }
  const std::string db_ = ::testing::TempDir() + "/stored_tuning_test.db";
};

TEST_F(StoredTuningTest, WhatADisturbedMachineMeasuredIsNotKept) {
  for (const char* scope : {"call", "network"}) {
    const TuningKey key = key_of(scope);
    double load = 0.4;
    const auto table = lasting_tuning(db_, [&] { return load; });
    table->store(key, {"per_model", 100});
    EXPECT_EQ(table->lookup(key).value().strategy, "per_model");  // one process, one answer
    const auto later = lasting_tuning(db_, [] { return 0.0; });
    EXPECT_FALSE(later->lookup(key));

    load = 0.05;
    table->store(key, {"bmm", 90});
    EXPECT_EQ(table->lookup(key).value().strategy, "bmm");
    EXPECT_EQ(later->lookup(key).value().strategy, "bmm");
  }
}

}  // namespace
}  // namespace wide::stored_tuning_test
