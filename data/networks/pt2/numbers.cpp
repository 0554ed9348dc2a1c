#include "data/networks/pt2/numbers.h"

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "data/bytes/refuse.h"

namespace wide::pt2 {
namespace {

using Numbers = std::vector<c10::IValue>;

bool whole(const c10::IValue& v) { return v.isInt() || v.isBool(); }
int64_t integer(const c10::IValue& v) { return v.isBool() ? v.toBool() : v.toScalar().toLong(); }
double real(const c10::IValue& v) { return v.toScalar().toDouble(); }

template <class Ints, class Reals>
c10::IValue both(const Numbers& n, Ints ints, Reals reals) {
  if (whole(n.at(0)) && whole(n.at(1))) return ints(integer(n[0]), integer(n[1]));
  return reals(real(n.at(0)), real(n.at(1)));
}

[[noreturn]] void by_zero() {
  fail("[export] size: got a division by zero, expected sizes as exported; try other inputs");
}

[[noreturn]] void too_large() {
  fail("[export] size: got one beyond 64 bits, expected sizes as exported; try other inputs");
}

int64_t plus(int64_t a, int64_t b) {
  int64_t r = 0;
  return __builtin_add_overflow(a, b, &r) ? (too_large(), 0) : r;
}

int64_t minus(int64_t a, int64_t b) {
  int64_t r = 0;
  return __builtin_sub_overflow(a, b, &r) ? (too_large(), 0) : r;
}

int64_t times(int64_t a, int64_t b) {
  int64_t r = 0;
  return __builtin_mul_overflow(a, b, &r) ? (too_large(), 0) : r;
}

int64_t floor_division(int64_t a, int64_t b) {
  if (!b) by_zero();
  if (b == -1) return minus(0, a);  // the least int64 divided by -1 would trap
  const int64_t q = a / b;
  return a % b && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t remainder(int64_t a, int64_t b) {
  if (!b) by_zero();
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r && (r < 0) != (b < 0) ? r + b : r;
}

/// By squaring, as a file may have a huge exponent.
int64_t power(int64_t a, int64_t b) {
  int64_t r = 1;
  while (b > 0) {
    if (b % 2) r = times(r, a);
    b /= 2;
    if (b) a = times(a, a);
  }
  return r;
}

/// Rounds towards zero.
int64_t whole_of(double value) {
  if (!(value > -9.2e18 && value < 9.2e18)) too_large();
  return static_cast<int64_t>(value);
}

const std::map<std::string, std::function<c10::IValue(const Numbers&)>>& functions() {
  using N = Numbers;
  const auto most = [](auto a, auto b) { return std::max(a, b); };
  const auto least = [](auto a, auto b) { return std::min(a, b); };
  static const std::map<std::string, std::function<c10::IValue(const N&)>> all = {
      {"add", [](const N& n) { return both(n, plus, std::plus<double>()); }},
      {"sub", [](const N& n) { return both(n, minus, std::minus<double>()); }},
      {"mul", [](const N& n) { return both(n, times, std::multiplies<double>()); }},
      {"floordiv",
       [](const N& n) {
         return both(n, floor_division, [](double a, double b) { return std::floor(a / b); });
       }},
      {"mod",
       [](const N& n) {
         return both(n, remainder, [](double a, double b) { return a - std::floor(a / b) * b; });
       }},
      {"truediv",
       [](const N& n) -> c10::IValue {
         if (real(n.at(1)) == 0) by_zero();
         return real(n.at(0)) / real(n.at(1));
       }},
      {"pow",
       [](const N& n) -> c10::IValue {
         if (whole(n.at(0)) && whole(n.at(1)) && integer(n[1]) >= 0)
           return power(integer(n[0]), integer(n[1]));
         return std::pow(real(n.at(0)), real(n.at(1)));
       }},
      {"neg",
       [](const N& n) {
         return whole(n.at(0)) ? c10::IValue(minus(0, integer(n[0]))) : c10::IValue(-real(n[0]));
       }},
      {"pos", [](const N& n) { return n.at(0); }},
      {"eq", [](const N& n) { return c10::IValue(real(n.at(0)) == real(n.at(1))); }},
      {"ne", [](const N& n) { return c10::IValue(real(n.at(0)) != real(n.at(1))); }},
      {"lt", [](const N& n) { return c10::IValue(real(n.at(0)) < real(n.at(1))); }},
      {"le", [](const N& n) { return c10::IValue(real(n.at(0)) <= real(n.at(1))); }},
      {"gt", [](const N& n) { return c10::IValue(real(n.at(0)) > real(n.at(1))); }},
      {"ge", [](const N& n) { return c10::IValue(real(n.at(0)) >= real(n.at(1))); }},
      {"and_", [](const N& n) { return c10::IValue(integer(n.at(0)) && integer(n.at(1))); }},
      {"or_", [](const N& n) { return c10::IValue(integer(n.at(0)) || integer(n.at(1))); }},
      {"sym_not", [](const N& n) { return c10::IValue(!integer(n.at(0))); }},
      {"sym_ite", [](const N& n) { return integer(n.at(0)) ? n.at(1) : n.at(2); }},
      {"sym_max", [=](const N& n) { return both(n, most, most); }},
      {"sym_min", [=](const N& n) { return both(n, least, least); }},
      {"sym_float", [](const N& n) { return c10::IValue(real(n.at(0))); }},
      {"sym_int", [](const N& n) { return c10::IValue(whole_of(std::trunc(real(n.at(0))))); }},
      {"sym_sqrt", [](const N& n) { return c10::IValue(std::sqrt(real(n.at(0)))); }},
      {"_sym_sqrt", [](const N& n) { return c10::IValue(std::sqrt(real(n.at(0)))); }},
      {"sqrt", [](const N& n) { return c10::IValue(std::sqrt(real(n.at(0)))); }},
      {"trunc", [](const N& n) { return c10::IValue(whole_of(std::trunc(real(n.at(0))))); }},
      {"floor", [](const N& n) { return c10::IValue(whole_of(std::floor(real(n.at(0))))); }},
      {"ceil", [](const N& n) { return c10::IValue(whole_of(std::ceil(real(n.at(0))))); }}};
  return all;
}

}  // namespace

size_t arity_of_python_number(const std::string& function) {
  static const std::set<std::string> of_one = {"neg",     "pos",      "sym_not", "sym_float",
                                               "sym_int", "sym_sqrt", "sqrt",    "_sym_sqrt",
                                               "trunc",   "floor",    "ceil"};
  if (!functions().count(function)) return 0;
  return of_one.count(function) ? 1 : function == "sym_ite" ? 3 : 2;
}

c10::IValue python_number(const std::string& function, const std::vector<c10::IValue>& arguments) {
  return functions().at(function)(arguments);
}

}  // namespace wide::pt2
