#pragma once
#include <nlohmann/json.hpp>

#include "engine/model/dynamic_batch.h"

namespace wide {

/// Values of a program in the JSON of torch.export archives, schema 8.17.

/// An argument that is no tensor, by its value and declared type; enumerations are the schema's,
/// not c10's. Throws Error naming operator and argument if the schema cannot express it.
nlohmann::ordered_json pt2_constant(const c10::Argument& declared, const IValue& value,
                                    const std::string& op);
/// JSON has no infinities; PyTorch writes "Infinity", "-Infinity" and "NaN".
nlohmann::ordered_json pt2_number(double x);
/// A number that depends on the batch size, whose symbol is `kBatchSymbol`; `hint`: its value on
/// the sample.
inline constexpr const char* kBatchSymbol = "s0";
nlohmann::ordered_json pt2_expression(const BatchFormula& formula, int64_t hint);
/// `{"dtype": 7, "sizes": [{"as_int": 4}], ...}`; with `formulas` if sizes depend on the batch.
nlohmann::ordered_json pt2_tensor_meta(const Value& value, bool requires_grad,
                                       const ValueFormulas* formulas = nullptr);
/// Whether an argument has its default value and may be left out.
bool pt2_is_default(const c10::Argument& declared, const Argument& given);

}  // namespace wide
