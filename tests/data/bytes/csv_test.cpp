// CSV as users write it: what the reader accepts, and which texts are numbers.
#include "data/bytes/csv.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/python.h"

namespace wide::csv_test {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows rows_of(const std::string& text) {
  CsvReader reader(text, "f.csv");
  Rows rows{reader.names()};
  std::vector<std::string_view> cells;
  while (reader.next(&cells)) rows.emplace_back(cells.begin(), cells.end());
  return rows;
}

TEST(Csv, QuotesSpacesBlankLinesAndByteOrderMark) {
  EXPECT_EQ(rows_of("\xef\xbb\xbflr, seed\r\n\r\n 1e-3 ,\t7\n\n\"a, \"\"b\"\"\nc\",\" x \"\n"),
            (Rows{{"lr", "seed"}, {"1e-3", "7"}, {"a, \"b\"\nc", " x "}}));
  // With one column a blank line is an empty cell.
  EXPECT_EQ(rows_of("lr\n\n2"), (Rows{{"lr"}, {""}, {"2"}}));
}

TEST(Csv, ErrorsNameFileAndLine) {
  const auto first_of = [](const std::string& text) { return error_of([&] { rows_of(text); }); };
  EXPECT_EQ(first_of("a,b\n1,2\n3\n").rfind("[f.csv] line 3: got 1 cells, expected 2", 0), 0u);
  EXPECT_EQ(first_of("a\n\"x").rfind("[f.csv] line 2: got a quote that does not end", 0), 0u);
  EXPECT_EQ(first_of("a\n\"x\"y\n").rfind("[f.csv] line 2: got text after a quote", 0), 0u);
}

TEST(Csv, NumbersAreWholeTexts) {
  double number = 0;
  const auto value = [&](const char* text) {
    EXPECT_TRUE(parse_number(text, &number)) << text;
    return number;
  };
  EXPECT_EQ(value("5"), 5);
  EXPECT_EQ(value("+5"), 5);
  EXPECT_EQ(value("-1e-3"), -1e-3);
  EXPECT_EQ(value(".5"), .5);
  EXPECT_EQ(value("+inf"), INFINITY);
  EXPECT_EQ(value("-Infinity"), -INFINITY);
  EXPECT_TRUE(std::isnan(value("NaN")));
  for (const char* text :
       {"", "+", "-", "+-5", "-+5", "++5", "--5", "5 ", " 5", "0x10", "1,5", "5e"})
    EXPECT_FALSE(parse_number(text, &number)) << text;
}

}  // namespace
}  // namespace wide::csv_test
