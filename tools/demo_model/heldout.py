"""Hand-written requests with their answers (tests/demo/*.txt): reading them, and measuring a model by them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path


def option(text: str):
    found = re.fullmatch(r"(.*?)\s*\((.*)\)", text.strip())
    return (found[1], found[2]) if found else (text.strip(), None)


def question(line: str):
    """(id, question, answer) of `id = options: text => answer`."""
    body, answer = line.rsplit("=>", 1)
    answer = answer.strip()
    head, text = split_head(body)
    qid, _, options = head.partition(" = ")
    made = {}
    if text:
        made["instructions"] = text
    if not options:
        return qid.strip(), {"type": "noul", **made}, {"yes": True, "no": False}[answer]
    if " < " in options:
        levels = [o.strip() for o in options.split(" < ")]
        return qid.strip(), {"type": "score", "criteria": levels, **made}, float(answer)
    criteria = dict(option(o) for o in options.split(" | "))
    if answer not in criteria:
        raise ValueError(f"{line!r}: the answer is no option")
    return qid.strip(), {"type": "choice", "criteria": criteria, **made}, answer


def split_head(body: str):
    depth = 0
    for i, c in enumerate(body):
        depth += (c == "(") - (c == ")")
        if c == ":" and depth == 0:
            return body[:i].strip(), body[i + 1 :].strip()
    raise ValueError(f"{body!r}: no colon")


def read(path: Path):
    """[(request, {question id: answer})]"""
    found = []
    for block in re.split(r"\n\s*\n", Path(path).read_text()):
        lines = [l for l in block.splitlines() if l.strip() and not l.startswith("#")]
        if not lines:
            continue
        if not lines[0].startswith("state: "):
            raise ValueError(f"{path}: {lines[0]!r}: expected a state")
        text = lines[0][7:]
        state = json.loads(text) if text[:1] in "[{" else text
        questions, answers = {}, {}
        for line in lines[1:]:
            qid, made, answer = question(line)
            questions[qid], answers[qid] = made, answer
        found.append(({"model": "cleffa-demo", "state": state, "questions": questions}, answers))
    return found


def measure(cases, answers_of):
    """answers_of(request) -> {question id: [(option id, probability)]}. Figures per type, calibration and the failures."""
    right, total, errors, bins, failures = defaultdict(int), defaultdict(int), [], defaultdict(list), []
    for request, expected in cases:
        got = answers_of(request)
        for qid, want in expected.items():
            kind, p = request["questions"][qid]["type"], got[qid]
            best = max(p, key=lambda o: o[1])
            if kind == "noul":
                hit = (p[0][1] > 0.5) == want
            elif kind == "choice":
                hit = best[0] == want
            else:
                mean = sum(float(o) * w for o, w in p)
                errors.append(abs(mean - want))
                hit = abs(mean - want) <= 0.6
            right[kind] += hit
            total[kind] += 1
            if kind != "score":
                bins[min(9, int(best[1] * 10))].append((best[1], hit))
            if not hit:
                failures.append((request["state"], qid, request["questions"][qid].get("instructions", qid), want, [(o, round(w, 3)) for o, w in p]))
    count = sum(len(b) for b in bins.values())
    ece = sum(abs(sum(p for p, _ in b) - sum(h for _, h in b)) for b in bins.values()) / max(1, count)
    both = (right["noul"] + right["choice"]) / max(1, total["noul"] + total["choice"])
    return {
        "requests": len(cases), "questions": sum(total.values()), "noul": right["noul"] / max(1, total["noul"]), "choice": right["choice"] / max(1, total["choice"]),
        "noul_and_choice": both, "score_error": sum(errors) / max(1, len(errors)), "score_within_0.6": right["score"] / max(1, total["score"]),
        "all": sum(right.values()) / max(1, sum(total.values())), "ece": ece, "counts": dict(total),
    }, failures
