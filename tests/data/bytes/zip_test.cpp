#include "data/bytes/zip/zip.h"

#include <fmt/format.h>

#include "data/bytes/mapped_file.h"
#include "tests/data/bytes/zip_bytes.h"
#include "tests/data/python.h"

namespace wide::zip_test {
namespace {

using Records = std::vector<ZipRecord>;

std::string refused(const std::string& bytes) {
  return error_of([&] { zip::parse(bytes, "a.zip"); });
}

std::string refused(const Records& records) { return refused(zip_bytes(records)); }

TEST(Zip, ReadsWhatPythonAndTorchWrite) {
  const Scratch scratch;
  python(scratch.path(), R"(
import zipfile, torch
with zipfile.ZipFile("plain.zip", "w") as z:
    z.mkdir("d")
    z.writestr("d/a", b"hello, wide world")
    with z.open("d/big", "w", force_zip64=True) as f: f.write(bytes(1000))
    z.comment = b"PK a comment"
torch.save({"w": torch.arange(9.), "v": torch.ones(3)}, "w.pt")
)");
  const MappedFile plain(scratch / "plain.zip");
  EXPECT_TRUE(zip::probe(plain.bytes()));
  const zip::Index index = zip::parse(plain.bytes(), plain.path());
  ASSERT_EQ(index.entries.size(), 2u);
  EXPECT_EQ(index.folder(), "d/");
  EXPECT_EQ(zip::bytes_of(plain.bytes(), *index.find("d/a")), "hello, wide world");
  EXPECT_EQ(zip::bytes_of(plain.bytes(), *index.find("d/big")), std::string(1000, '\0'));
  EXPECT_EQ(index.find("a"), nullptr);
  for (const zip::Entry& e : index.entries) zip::check_crc(plain.bytes(), e, plain.path());

  const MappedFile saved(scratch / "w.pt");
  const zip::Index tensors = zip::parse(saved.bytes(), saved.path());
  EXPECT_EQ(tensors.folder(), "w/");
  const zip::Entry* values = tensors.find("w/data/0");
  ASSERT_NE(values, nullptr);
  EXPECT_EQ(values->begin % 64, 0u);
  float last = 0;
  std::memcpy(&last, zip::bytes_of(saved.bytes(), *values).data() + 32, 4);
  EXPECT_EQ(last, 8.0f);
  for (const zip::Entry& e : tensors.entries) zip::check_crc(saved.bytes(), e, saved.path());
}

TEST(Zip, WhatIsCompressedIsRefusedNotUnpacked) {
  const Scratch scratch;
  python(scratch.path(), R"(
import zipfile
with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED) as z: z.writestr("a", bytes(1 << 22))
)");
  EXPECT_EQ(
      refused(read_text(scratch / "bomb.zip")),
      "[a.zip] zip record a: got it compressed (method 8), expected it stored as it is; try to "
      "save the file with PyTorch again");
}

TEST(Zip, RefusesPathsThatLeadOut) {
  const std::string tail = ", expected a plain path inside the archive; try to save the file again";
  EXPECT_EQ(refused(Records{{"../a", ""}}),
            "[a.zip] zip record ../a: got a path that leaves its folder" + tail);
  EXPECT_EQ(refused(Records{{"a/../../b", ""}}),
            "[a.zip] zip record a/../../b: got a path that leaves its folder" + tail);
  EXPECT_EQ(refused(Records{{"/etc/x", ""}}),
            "[a.zip] zip record /etc/x: got an absolute path" + tail);
  EXPECT_EQ(refused(Records{{"a//b", ""}}), "[a.zip] zip record a//b: got an empty folder" + tail);
  EXPECT_EQ(refused(Records{{"a\nb", ""}}),
            "[a.zip] zip record a\\x0ab: got a strange character" + tail);
  EXPECT_EQ(refused(Records{{"c:\\b", ""}}),
            "[a.zip] zip record c:\\b: got a strange character" + tail);
  EXPECT_EQ(refused(Records{{"", ""}}), "[a.zip] zip record : got an empty one" + tail);
}

TEST(Zip, RefusesNamesTwiceAndRecordsInOneAnother) {
  EXPECT_EQ(refused(Records{{"a", "1"}, {"a", "2"}}),
            "[a.zip] zip record a: got the same name twice, expected every name once; try to save "
            "the file again");
  ZipRecord second{"b", "12"};
  second.header = 0;
  EXPECT_EQ(refused(Records{{"a", "12"}, second}),
            "[a.zip] zip record b: got another name in its header, expected the same; try to save "
            "the file again");
  // A record that holds the header of the next one, as bombs of overlapping files do.
  ZipRecord outer{"a", ""};
  outer.size = 20;
  EXPECT_EQ(refused(Records{outer, {"b", "12"}}),
            "[a.zip] zip record b: got bytes 31 to 64, expected bytes of its own: they overlap "
            "others; try to save the file again");
}

TEST(Zip, RefusesSizesThatAreNotThere) {
  ZipRecord record{"a", "12"};
  record.size = 0x7fffffff;
  EXPECT_EQ(
      refused(Records{record}),
      "[a.zip] zip archive: got 2147483647 bytes wanted from byte 31 of 102, expected them in "
      "the file; try to fetch the file again");
  record.size = -1;
  record.header = 0x7ffffff0;
  EXPECT_EQ(refused(Records{record}),
            "[a.zip] zip archive: got 4 bytes wanted from byte 2147483632 of 102, expected them in "
            "the file; try to fetch the file again");
  // Reaches into the directory.
  record = {"a", "12"};
  record.size = 10;
  EXPECT_NE(refused(Records{record}).find("expected bytes of its own"), std::string::npos);
  record = {"a", "12"};
  record.flags = 1;
  EXPECT_NE(refused(Records{record}).find("got it encrypted"), std::string::npos);
  EXPECT_EQ(refused(zip_bytes({{"a", "12"}}, 0xffff)),
            "[a.zip] zip directory: got 65535 records, expected at most 1 in 47 bytes; try to save "
            "the file again");
  EXPECT_EQ(
      refused(zip_bytes({{"a", "12"}}, 0)),
      "[a.zip] zip directory: got 47 bytes more, expected 0 records to fill it; try to save the "
      "file again");
}

TEST(Zip, EveryTruncationIsRefused) {
  ZipRecord record{"a", "1234"};
  record.local_extra = record.extra = std::string("\x99\x99\2\0ab", 6);
  const std::string whole = zip_bytes({record, {"b/c", "5"}}, -1, "a comment");
  EXPECT_EQ(refused(whole), "");
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(refused(whole.substr(0, size)), "") << size;
}

TEST(Zip, ChangedBytesAreSeenWhenAsked) {
  ZipRecord record{"a", "123456789"};
  record.crc32 = 0xcbf43926;  // the check value that the polynomial is published with
  std::string bytes = zip_bytes({record});
  const zip::Index index = zip::parse(bytes, "a.zip");
  zip::check_crc(bytes, index.entries[0], "a.zip");
  bytes[index.entries[0].begin] ^= 1;
  EXPECT_EQ(error_of([&] { zip::check_crc(bytes, index.entries[0], "a.zip"); }),
            "[a.zip] zip record a: got checksum dc8f2d65, expected cbf43926; try to fetch the file "
            "again");
}

}  // namespace
}  // namespace wide::zip_test
