#include "data/networks/pt2/numbers.h"

#include <cmath>
#include <functional>
#include <map>

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

int64_t floor_division(int64_t a, int64_t b) {
  if (!b) by_zero();
  const int64_t q = a / b;
  return a % b && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t power(int64_t a, int64_t b) {
  int64_t r = 1;
  for (int64_t i = 0; i < b; ++i)
    if (__builtin_mul_overflow(r, a, &r))
      fail("[export] size: got one beyond 64 bits, expected sizes as exported; try other inputs");
  return r;
}

const std::map<std::string, std::function<c10::IValue(const Numbers&)>>& functions() {
  using N = Numbers;
  static const std::map<std::string, std::function<c10::IValue(const N&)>> all = {
      {"add", [](const N& n) { return both(n, std::plus<int64_t>(), std::plus<double>()); }},
      {"sub", [](const N& n) { return both(n, std::minus<int64_t>(), std::minus<double>()); }},
      {"mul",
       [](const N& n) { return both(n, std::multiplies<int64_t>(), std::multiplies<double>()); }},
      {"floordiv",
       [](const N& n) {
         return both(n, floor_division, [](double a, double b) { return std::floor(a / b); });
       }},
      {"mod",
       [](const N& n) {
         return both(
             n, [](int64_t a, int64_t b) { return a - floor_division(a, b) * b; },
             [](double a, double b) { return a - std::floor(a / b) * b; });
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
         return whole(n.at(0)) ? c10::IValue(-integer(n[0])) : c10::IValue(-real(n[0]));
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
      {"sym_max",
       [](const N& n) {
         return both(
             n, [](int64_t a, int64_t b) { return std::max(a, b); },
             [](double a, double b) { return std::max(a, b); });
       }},
      {"sym_min",
       [](const N& n) {
         return both(
             n, [](int64_t a, int64_t b) { return std::min(a, b); },
             [](double a, double b) { return std::min(a, b); });
       }},
      {"sym_float", [](const N& n) { return c10::IValue(real(n.at(0))); }},
      {"sym_int",
       [](const N& n) { return c10::IValue(static_cast<int64_t>(std::trunc(real(n.at(0))))); }},
      {"sym_sqrt", [](const N& n) { return c10::IValue(std::sqrt(real(n.at(0)))); }},
      {"_sym_sqrt", [](const N& n) { return c10::IValue(std::sqrt(real(n.at(0)))); }},
      {"sqrt", [](const N& n) { return c10::IValue(std::sqrt(real(n.at(0)))); }},
      {"trunc",
       [](const N& n) { return c10::IValue(static_cast<int64_t>(std::trunc(real(n.at(0))))); }},
      {"floor",
       [](const N& n) { return c10::IValue(static_cast<int64_t>(std::floor(real(n.at(0))))); }},
      {"ceil",
       [](const N& n) { return c10::IValue(static_cast<int64_t>(std::ceil(real(n.at(0))))); }}};
  return all;
}

}  // namespace

bool known_python_number(const std::string& function) { return functions().count(function) > 0; }

c10::IValue python_number(const std::string& function, const std::vector<c10::IValue>& arguments) {
  return functions().at(function)(arguments);
}

}  // namespace wide::pt2
