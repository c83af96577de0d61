"""From a fact about a state to a typed question with its target: wording, names of options, descriptions, ids."""

from __future__ import annotations

import re


def clean(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def identifier(rng, text: str) -> str:
    """A question id or option id made of words: snake_case mostly, at times as it is."""
    words = re.findall(r"[A-Za-z0-9]+", text)[:5] or ["q"]
    draw = rng.random()
    if draw < 0.6:
        return "_".join(words).lower()
    if draw < 0.75:
        return " ".join(words).lower()
    if draw < 0.85:
        return words[0].lower() + "".join(w.capitalize() for w in words[1:])
    return "-".join(words).lower()


def style_of(rng):
    """How one question's options are written."""
    draw = rng.random()
    if draw < 0.55:
        return lambda s: s
    if draw < 0.72:
        return lambda s: s.replace(" ", "_").replace("-", "_")
    if draw < 0.84:
        return lambda s: s[:1].upper() + s[1:]
    if draw < 0.9:
        return lambda s: s.replace(" ", "-")
    if draw < 0.95:
        return lambda s: s.upper().replace(" ", "_")
    return lambda s: s.title()


SHORT_IDS = ["q", "a", "b", "q1", "q2", "field", "answer", "result", "x", "check", "flag", "value", "decision"]
OTHERS = ["other", "none", "none of these", "something else", "unknown", "anything else", "not stated", "else", "others"]


def question_id(rng, hint: str, taken) -> str:
    qid = rng.choice(SHORT_IDS) if rng.random() < 0.25 else identifier(rng, hint)
    while qid in taken:
        qid += str(rng.randint(2, 9))
    return qid


def choice(rng, text: str, hint: str, options, right: int | None, soft=None, other_rate=0.15, keep_text=False):
    """options: (name, description or None). `right` is an index, or None when no option fits; soft: weights instead."""
    style = style_of(rng)
    mode = rng.random()
    names, criteria, weights = set(), {}, {}
    for i, (name, description) in enumerate(options):
        key = style(name)
        if key.lower() in names:
            continue
        names.add(key.lower())
        keep = mode < 0.3 or (mode < 0.42 and rng.random() < 0.5)
        criteria[key] = description if keep else None
        weights[key] = soft[i] if soft else float(i == right)
    wants_other = right is None and soft is None
    if wants_other or rng.random() < other_rate:
        key = style(rng.choice(OTHERS))
        if key.lower() not in names:
            criteria[key] = None if rng.random() < 0.7 else "None of the above applies"
            weights[key] = float(wants_other)
    total = sum(weights.values())
    if total == 0 or len(criteria) < 2:
        return None
    keys = list(criteria)
    rng.shuffle(keys)
    question = {"type": "choice", "criteria": {k: criteria[k] for k in keys}}
    if keep_text or rng.random() < 0.78:
        question["instructions"] = text
        qid = hint
    else:
        qid = text if rng.random() < 0.3 else hint
    return qid, question, {k: w / total for k, w in weights.items()}


TRUE_WORDS = ["Yes", "True", "It is so", "Correct", "Holds"]


def noul(rng, text: str, probability: float, keep_text=False):
    """text is a question or a statement. Statements are at times asked, questions at times bare ids."""
    statement = not text.endswith("?")
    question = {"type": "noul"}
    words = identifier(rng, " ".join(re.sub(r"^(Is|Are|Does|Do|Was|Were|Has|Have|Can|Should|Did|Must|Might|Will) (the |it |there |a )?", "", text).split()[-3:]))
    qid = words
    if statement and rng.random() < 0.3:
        text = rng.choice(("Is it true that {}?", "Does it hold that {}?", "{}: true or not?", "Can one say that {}?")).format(text[:1].lower() + text[1:])
        statement = False
    draw = rng.random()
    if keep_text or draw < 0.9 or not statement:
        if statement and rng.random() < 0.5:
            text = text[:1].upper() + text[1:] + "."
        question["instructions"] = text
    else:
        qid = text if rng.random() < 0.5 else identifier(rng, text)
    if rng.random() < 0.06:
        question["criteria"] = {"true": rng.choice(TRUE_WORDS), "false": rng.choice(("No", "False", "It is not so", "Wrong"))}
    return qid, question, probability


def score(rng, text: str, levels: list[str], position: float, spread: float = 0.4):
    """position in [0, 1] over the levels. The target is a narrow bell around it."""
    style = style_of(rng)
    levels = [style(l) if rng.random() < 0.97 else l for l in levels]
    place = position * (len(levels) - 1)
    weights = [pow(2.718281828, -((i - place) ** 2) / (2 * spread * spread)) + 1e-3 for i in range(len(levels))]
    total = sum(weights)
    question = {"type": "score", "criteria": levels}
    qid = identifier(rng, text)
    if rng.random() < 0.85:
        question["instructions"] = text
    else:
        qid = text
    return qid, question, [w / total for w in weights]
