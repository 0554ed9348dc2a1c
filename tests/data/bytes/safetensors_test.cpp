#include "data/bytes/safetensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstring>

#include "data/tensors.h"
#include "tests/data/python.h"

namespace wide::safetensors_test {
namespace {

using safetensors::parse;

/// A file's bytes: the length, the header, the data.
std::string file_of(const std::string& header, size_t data = 0) {
  uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data, 'x');
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape,
                     offsets);
}

std::string refused(const std::string& bytes) {
  return error_of([&] { parse(bytes, "w.safetensors"); });
}

std::string refused_header(const std::string& header, size_t data = 0) {
  return refused(file_of(header, data));
}

TEST(Safetensors, ReadsWhatTheFormatAllows) {
  const auto index = parse(
      file_of("{\"__metadata__\":{\"format\":\"pt\"}," + entry("b", "F32", "[2,1]", "[2,10]") +
                  "," + entry("a", "I16", "[]", "[0,2]") + "," +
                  entry("none", "F64", "[0,18446744073709551]", "[10,10]") + "}   ",
              10),
      "w.safetensors");
  ASSERT_EQ(index.entries.size(), 3u);
  EXPECT_EQ(index.entries[0].name, "a");
  EXPECT_EQ(index.entries[1].name, "b");
  EXPECT_EQ(index.entries[1].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(index.entries[1].end - index.entries[1].begin, 8u);
  EXPECT_EQ(index.metadata.at("format"), "pt");
  EXPECT_EQ(index.find("c"), nullptr);
  EXPECT_TRUE(parse(file_of("{}"), "w").entries.empty());
  for (const char* shape : {"[0]", "[3,0]", "[0,1099511627776,1099511627776]"})
    for (const char* dtype : {"F4", "F6_E2M3", "F32"})
      EXPECT_EQ(refused_header("{" + entry("a", dtype, shape, "[0,0]") + "}"), "") << shape;
}

TEST(Safetensors, RefusesBadLengths) {
  EXPECT_EQ(refused("1234567"),
            "[w.safetensors] size: got 7 bytes, expected at least the 8 of a header length; try to "
            "fetch the file again");
  EXPECT_EQ(refused(std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10)),
            "[w.safetensors] header length: got 100000001, expected at most 100000000; try to "
            "check that this is a safetensors file");
  EXPECT_EQ(refused(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)),
            "[w.safetensors] header length: got 18446744073709551615, expected at most 100000000; "
            "try to check that this is a safetensors file");
  EXPECT_EQ(refused(std::string("\x03\0\0\0\0\0\0\0{}", 10)),
            "[w.safetensors] header length: got 3, expected at most 2, what follows it in the "
            "file; try to fetch the file again");
}

TEST(Safetensors, RefusesHeadersThatAreNotObjects) {
  EXPECT_EQ(refused_header(""),
            "[w.safetensors] header: got nothing, expected '{'; try to check that this is a "
            "safetensors file");
  EXPECT_EQ(refused_header("[]"),
            "[w.safetensors] header: got '[' first, expected '{'; try to check that this is a "
            "safetensors file");
  EXPECT_EQ(refused_header(" {}"),
            "[w.safetensors] header: got ' ' first, expected '{'; try to check that this is a "
            "safetensors file");
  EXPECT_EQ(refused_header("{}\n"),
            "[w.safetensors] header: got other white space at its end, expected JSON padded with "
            "spaces; try to save the file again");
  EXPECT_EQ(refused_header(std::string("{}\0\0", 4)),
            "[w.safetensors] header: got a zero byte at 2, expected JSON padded with spaces; try "
            "to save the file again");
  for (const char* bad : {"{", "{}{}", "{\"a\"}", "{\"a\":}", "{\"\xff\xfe\":1}"})
    EXPECT_EQ(refused_header(bad).rfind("[w.safetensors] header: got bad JSON at byte ", 0), 0u)
        << bad;
  std::string deep = "{\"a\":";
  deep += std::string(1000000, '[');
  EXPECT_EQ(refused_header(deep),
            "[w.safetensors] entry a: got an array, expected an object; try to save the file "
            "again");
}

TEST(Safetensors, RefusesBadEntries) {
  const std::string again = "; try to save the file again";
  EXPECT_EQ(refused_header(R"({"a":1})"),
            "[w.safetensors] entry a: got 1, expected an object" + again);
  EXPECT_EQ(refused_header(R"({"a":{"dtype":"F32","shape":[]}})"),
            "[w.safetensors] tensor a: got no data_offsets, expected one" + again);
  EXPECT_EQ(refused_header(R"({"a":{"shape":[],"data_offsets":[0,4]}})", 4),
            "[w.safetensors] tensor a: got no dtype, expected one" + again);
  EXPECT_EQ(refused_header(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4),
            "[w.safetensors] tensor a: got no shape, expected one" + again);
  EXPECT_EQ(refused_header(R"({"a":{"dtype":"F32","size":[]}})"),
            "[w.safetensors] keys of tensor a: got size, expected dtype, shape and data_offsets "
            "only" +
                again);
  EXPECT_EQ(refused_header(R"({"a":{"dtype":"F32","dtype":"F32"}})"),
            "[w.safetensors] key dtype of tensor a: got it twice, expected every key once" + again);
  EXPECT_EQ(
      refused_header(
          "{" + entry("a", "F32", "[]", "[0,4]") + "," + entry("a", "F32", "[]", "[4,8]") + "}", 8),
      "[w.safetensors] name a: got the same name twice, expected every name once" + again);
  EXPECT_EQ(refused_header("{" + entry("a", "F33", "[]", "[0,4]") + "}", 4),
            "[w.safetensors] dtype of tensor a: got F33, expected a dtype of the format such as "
            "F32" +
                again);
  EXPECT_EQ(refused_header(R"({"a":{"dtype":32}})"),
            "[w.safetensors] dtype of tensor a: got 32, expected a string" + again);
  EXPECT_EQ(refused_header(R"({"a":{"shape":2}})"),
            "[w.safetensors] shape of tensor a: got 2, expected an array" + again);
  EXPECT_EQ(refused_header(R"({"a":{"shape":[-1]}})"),
            "[w.safetensors] shape of tensor a: got -1, expected unsigned integers" + again);
  EXPECT_EQ(refused_header(R"({"a":{"shape":[1.5]}})"),
            "[w.safetensors] shape of tensor a: got 1.5, expected unsigned integers" + again);
  EXPECT_EQ(refused_header(R"({"a":{"shape":[[1]]}})"),
            "[w.safetensors] shape of tensor a: got an array, expected unsigned integers" + again);
  EXPECT_EQ(refused_header(R"({"a":{"shape":[9223372036854775808]}})"),
            "[w.safetensors] shape of tensor a: got 9223372036854775808, expected a size below "
            "2^63" +
                again);
  EXPECT_EQ(refused_header("{" + entry("a", "F32", "[]", "[0,4,8]") + "}", 4),
            "[w.safetensors] data_offsets of tensor a: got 3 numbers, expected 2" + again);
  EXPECT_EQ(refused_header("{" + entry("a", "F32", "[]", "[4,0]") + "}", 4),
            "[w.safetensors] data_offsets of tensor a: got [4, 0], expected begin <= end" + again);
  EXPECT_EQ(refused_header("{" + entry("a", "F32", "[2]", "[0,8]") + "}", 4),
            "[w.safetensors] data_offsets of tensor a: got end 8, expected at most 4, the bytes of "
            "data there are; try to fetch the file again");
  EXPECT_EQ(refused_header("{" + entry("a", "F32", "[2]", "[0,4]") + "}", 4),
            "[w.safetensors] size of tensor a: got 4 bytes, expected 8 for F32 [2]" + again);
  EXPECT_EQ(refused_header("{" + entry("a", "F32", "[4294967296,4294967296,4]", "[0,0]") + "}", 0),
            "[w.safetensors] shape of tensor a: got F32 [4294967296, 4294967296, 4], expected a "
            "size in whole bytes below 2^64" +
                again);
  EXPECT_EQ(refused_header("{" + entry("a", "F4", "[3]", "[0,1]") + "}", 1),
            "[w.safetensors] shape of tensor a: got F4 [3], expected a size in whole bytes below "
            "2^64" +
                again);
  EXPECT_EQ(refused_header(R"({"__metadata__":{"a":1}})"),
            "[w.safetensors] __metadata__ a: got 1, expected a string" + again);
  EXPECT_EQ(refused_header(R"({"__metadata__":{"a":"1","a":"2"}})"),
            "[w.safetensors] key a of __metadata__: got it twice, expected every key once" + again);
}

TEST(Safetensors, RefusesOverlapsAndHoles) {
  const std::string again = "; try to save the file again";
  EXPECT_EQ(refused_header("{" + entry("a", "F32", "[2]", "[0,8]") + "," +
                               entry("b", "F32", "[1]", "[4,8]") + "}",
                           8),
            "[w.safetensors] tensor b: got data from byte 4, expected 8: it overlaps the tensor "
            "before it" +
                again);
  EXPECT_EQ(refused_header("{" + entry("a", "F32", "[1]", "[0,4]") + "," +
                               entry("b", "F32", "[1]", "[8,12]") + "}",
                           12),
            "[w.safetensors] tensor b: got data from byte 8, expected from byte 4, as no tensor "
            "has the bytes between" +
                again);
  EXPECT_EQ(refused_header("{" + entry("a", "F32", "[1]", "[0,4]") + "}", 5),
            "[w.safetensors] data: got 5 bytes, expected 4: the rest belongs to no tensor" + again);
  EXPECT_EQ(refused_header("{}", 1),
            "[w.safetensors] data: got 1 bytes, expected 0: the rest belongs to no tensor" + again);
}

TEST(Safetensors, NamesNeverBreakTheLine) {
  const std::string message = refused_header(R"({"a\nb":1})");
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_NE(message.find("a\\x0ab"), std::string::npos);
}

TEST(Safetensors, EveryTruncationAndEveryFlippedByteIsReadOrRefused) {
  const std::string good = file_of(
      "{" + entry("a", "F32", "[2,3]", "[0,24]") + "," + entry("b", "U8", "[5]", "[24,29]") + "}",
      29);
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(refused(good.substr(0, n)).empty()) << n;
  for (size_t i = 0; i < good.size() - 29; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const std::string message = refused(bad);  // must throw nothing but Error
      EXPECT_EQ(message.find('\n'), std::string::npos);
    }
}

TEST(Safetensors, MissingFilesAndFoldersAreNamed) {
  EXPECT_EQ(error_of([] { load_tensors("/nowhere/a.safetensors"); }),
            "[/nowhere/a.safetensors] file: got No such file or directory, expected a readable "
            "file; try to check the path");
  const Scratch scratch;
  EXPECT_EQ(error_of([&] { load_tensors(scratch.path().string()); }),
            "[" + scratch.path().string() +
                "] file: got a folder, pipe or device, expected a regular file; try to give the "
                "path of a file");
}

TEST(SafetensorsPython, PythonReadsWhatWeWrite) {
  const Scratch scratch;
  const auto f = at::arange(6, at::kFloat).reshape({2, 3});
  std::vector<std::pair<std::string, at::Tensor>> tensors = {
      {"flag", at::tensor({1, 0, 1}).to(at::kBool)},
      {"odd", at::arange(5).to(at::kByte)},
      {"turned", f.t()},  // not contiguous
      {"half", f.to(at::kHalf)},
      {"brain", f.to(at::kBFloat16)},
      {"double", f.to(at::kDouble)},
      {"long", at::arange(4) - 2},
      {"scalar", at::scalar_tensor(2.5, at::kFloat)},
      {"empty", at::empty({0, 3})}};
  save_tensors(scratch / "a.safetensors", tensors);
  save_tensors(scratch / "b.safetensors", {tensors.rbegin(), tensors.rend()});
  EXPECT_EQ(read_text(scratch / "a.safetensors"), read_text(scratch / "b.safetensors"));
  EXPECT_EQ(python(scratch.path(), R"(
import torch
from safetensors.torch import load_file
t = load_file("a.safetensors"); f = torch.arange(6.).reshape(2, 3)
assert torch.equal(t["turned"], f.t()) and torch.equal(t["half"], f.half())
assert torch.equal(t["brain"], f.bfloat16()) and torch.equal(t["double"], f.double())
assert t["flag"].tolist() == [True, False, True] and t["odd"].tolist() == [0, 1, 2, 3, 4]
assert t["long"].tolist() == [-2, -1, 0, 1] and t["scalar"].item() == 2.5 and t["scalar"].shape == ()
assert t["empty"].shape == (0, 3) and len(t) == 9
print("fine")
)"),
            "fine\n");
  const std::map<std::string, at::Tensor> expected(tensors.begin(), tensors.end());
  for (const auto& [name, tensor] : load_tensors(scratch / "a.safetensors")) {
    EXPECT_TRUE(same_bits(tensor, expected.at(name))) << name;
  }
}

TEST(SafetensorsPython, WeReadWhatPythonWrites) {
  const Scratch scratch;
  python(scratch.path(), R"(
import torch
from safetensors.torch import save_file
torch.manual_seed(1)
t = {"w.a": torch.randn(3, 5), "b": torch.arange(7, dtype=torch.uint8), "c": torch.randn(2, 3).half(),
     "d": torch.tensor(True), "e": torch.randn(4).bfloat16(), "f": torch.arange(3), "g": torch.empty(2, 0)}
save_file(t, "x.safetensors", metadata={"format": "pt"})
)");
  const auto tensors = load_tensors(scratch / "x.safetensors");
  ASSERT_EQ(tensors.size(), 7u);
  const std::map<std::string, at::Tensor> by_name(tensors.begin(), tensors.end());
  EXPECT_EQ(by_name.at("w.a").sizes(), (at::IntArrayRef{3, 5}));
  EXPECT_EQ(by_name.at("c").scalar_type(), at::kHalf);
  EXPECT_EQ(by_name.at("g").numel(), 0);
  EXPECT_TRUE(at::equal(by_name.at("b"), at::arange(7).to(at::kByte)));
  at::manual_seed(1);
  EXPECT_TRUE(at::equal(by_name.at("w.a"), at::randn({3, 5})));
  // The mapping is private: writing to a tensor leaves the file alone.
  const std::string before = read_text(scratch / "x.safetensors");
  by_name.at("b").fill_(9);
  EXPECT_EQ(read_text(scratch / "x.safetensors"), before);
}

TEST(SafetensorsPython, UnalignedTensorsAreCopied) {
  const Scratch scratch;
  // A U8 of one byte before an F32: its floats start at an odd address.
  std::string bytes = file_of(
      "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("b", "F32", "[1]", "[1,5]") + "}", 5);
  const float value = 1.25f;
  std::memcpy(bytes.data() + bytes.size() - 4, &value, 4);
  write_text(scratch / "a.safetensors", bytes);
  const auto tensors = load_tensors(scratch / "a.safetensors");
  EXPECT_EQ(tensors.at(1).second.item<float>(), 1.25f);
}

}  // namespace
}  // namespace wide::safetensors_test
