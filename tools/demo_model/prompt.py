"""A request as token ids and spans, exactly as the engine encodes it: every literal piece is tokenised on its own."""

from __future__ import annotations

import json

SYSTEM = "Read the complete state and schema. Decide every field jointly. Each answer must be exactly one of that field's allowed options."
PREFIX = f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\nSTATE:\n"
SUFFIX = "\n<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nJOINT SCHEMA DECISIONS:"
NOUL = {"true": "The proposition is true or the answer is yes.", "false": "The proposition is false or the answer is no."}
TYPES = {"noul": 0, "choice": 1, "score": 2}


def as_text(value) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def options_of(question: dict) -> list[tuple[str, object]]:
    criteria = question.get("criteria")
    if question["type"] == "noul":
        merged = {**NOUL, **(criteria or {})}
        return [("true", merged["true"]), ("false", merged["false"])]
    if question["type"] == "choice":
        return sorted(criteria.items())
    return [(str(i), level) for i, level in enumerate(criteria)]


def option_body(name: str, description) -> str:
    return as_text({"option_id": name} if description is None else {"option_id": name, "description": description})


def pieces(state, questions: dict):
    """(text, role) in order; role None, ('question', n), ('option', n, option id) or 'state'."""
    yield PREFIX, None
    yield as_text(state), "state"
    yield "\n\nSCHEMA FIELDS:\n", None
    for n, (qid, question) in enumerate(questions.items()):
        yield f"\nFIELD {n + 1}\nID: {qid}\nTYPE: {question['type']}\nINSTRUCTION: ", None
        instructions = question.get("instructions")
        yield as_text(qid if instructions in (None, "") else instructions), ("question", n)
        yield "\nALLOWED OPTIONS:\n", None
        for k, (name, description) in enumerate(options_of(question), 1):
            yield f"OPTION {k}: ", None
            yield option_body(name, description), ("option", n, name)
            yield "\n", None
        yield "END FIELD\n", None
    yield SUFFIX, None


def encode(tokenize, state, questions: dict) -> dict:
    ids, spans, options, state_span = [], [], [], (0, 0)
    for text, role in pieces(state, questions):
        first = len(ids)
        ids += tokenize(text)
        if role == "state":
            state_span = (first, len(ids))
        elif role and role[0] == "question":
            spans.append((first, len(ids)))
        elif role:
            options.append((role[1], role[2], first, len(ids)))
    return {"ids": ids, "state": state_span, "questions": spans, "types": [TYPES[q["type"]] for q in questions.values()], "options": options}
