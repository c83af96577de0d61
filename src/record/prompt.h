// The fixed texts of the prompt. Each is a piece of its own to the tokenizer, as is each text put between them.
//
// The released models were trained on these bytes. Source: encode_record, joint_schema_model.py.
#pragma once

#include <string_view>

namespace clef::prompt {

inline constexpr std::string_view kPrefix =
    "<|im_start|>system\n"
    "Read the complete state and schema. Decide every field jointly. Each answer must be exactly one of that field's "
    "allowed options.<|im_end|>\n"
    "<|im_start|>user\n"
    "STATE:\n";
// here: media, then the state
inline constexpr std::string_view kSchemaHead = "\n\nSCHEMA FIELDS:\n";
// for each question: "\nFIELD {n}\nID: {id}\nTYPE: {type}\nINSTRUCTION: ", then the instructions
inline constexpr std::string_view kOptionsHead = "\nALLOWED OPTIONS:\n";
// for each option: "OPTION {k}: ", then its body
inline constexpr std::string_view kOptionEnd = "\n";
inline constexpr std::string_view kFieldEnd = "END FIELD\n";
inline constexpr std::string_view kSuffix =
    "\n<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nJOINT SCHEMA DECISIONS:";

inline constexpr std::string_view kNoulTrue = "The proposition is true or the answer is yes.";
inline constexpr std::string_view kNoulFalse = "The proposition is false or the answer is no.";

}  // namespace clef::prompt
