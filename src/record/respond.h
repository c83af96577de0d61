// From decisions to the answer object.
#pragma once

#include "record/decision.h"
#include "record/encode.h"
#include "record/request.h"
#include "text/json.h"

namespace clef {

// {"model", "answers": {...}, "usage": {...}}: members, order, rounding and ties as the reference's.
Json respond(const Request& request, const EncodedRecord& record, const Decisions& decisions);

// {question id: {option id: logit}}, in prompt order. Each number is the double whose shortest text is the float's, so
// what is written is short and reads back to the same float.
Json logits_by_option(const EncodedRecord& record, const Decisions& decisions);

}  // namespace clef
