#pragma once
#include <nlohmann/json.hpp>

#include "engine/model/dynamic_batch.h"

namespace wide {

/// Values of a program as schema 8.17 of torch.export archives spells them.

/// An argument that is no tensor, by its value and what the operator declares; its enumerations
/// are not c10's. Throws Error naming operator and argument where the schema has no form for it.
nlohmann::ordered_json pt2_constant(const c10::Argument& declared, const IValue& value,
                                    const std::string& op);
/// JSON has no infinities; PyTorch writes "Infinity", "-Infinity" and "NaN".
nlohmann::ordered_json pt2_number(double x);
/// A number that depends on the batch size, whose symbol is `kBatchSymbol`; `hint`: what it is on
/// the sample.
inline constexpr const char* kBatchSymbol = "s0";
nlohmann::ordered_json pt2_expression(const BatchFormula& formula, int64_t hint);
/// `{"dtype": 7, "sizes": [{"as_int": 4}], ...}`; with `formulas` where sizes depend on the batch.
nlohmann::ordered_json pt2_tensor_meta(const Value& value, bool requires_grad,
                                       const ValueFormulas* formulas = nullptr);
/// Whether an argument is what the operator takes anyway, and may be left out.
bool pt2_is_default(const c10::Argument& declared, const Argument& given);

}  // namespace wide
