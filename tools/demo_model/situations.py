"""Single situations with many claims each (situations/*.txt): what follows from a text, said in words that the text does not use.

`=` texts of one situation (`j`: JSON with ⟨⟩ for its braces), `y` claims and questions that are true of it, `n` false ones (apart by `;`), `c question: right, other names
of it | wrong | wrong`, `s question: low < high @ place from 0 to 1`. Phrases are those of banks.py; a slot has one value a record.
"""

from __future__ import annotations

import copy
import json
import re
import zlib
from pathlib import Path

import asking
import banks
import slots

UNTRUE = ["It is not true that {}", "Is it wrong that {}?", "It is false that {}", "Would it be wrong to say that {}?"]
SURE = ["Is it true that {}?", "Does it follow that {}?", "Can one conclude that {}?", "{}, right?", "Claim: {}", "Is it the case that {}?", "true or false: {}", "Does the text say or imply that {}?"]
HELD = re.compile(r"(customers_[6-9]|work_[6-9]|everyday_[5-9]|reasoning_|judging_)")  # files of which a twentieth is never trained; the spans before read all of the others
QUESTION = re.compile(r"^(Is|Are|Does|Do|Was|Were|Has|Have|Had|Can|Could|Should|Did|Must|Might|Will|Would|Who|What|May)\b")


def read(folder: Path) -> list[dict]:
    found, now = [], None
    for path in sorted(folder.glob("*.txt")):
        now = None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            tag, rest = line[:1], line[2:].strip()
            if not line.strip():
                now = None
                continue
            if now is None:
                now = {"file": path.stem, "texts": [], "yes": [], "no": [], "choices": [], "scores": []}
                found.append(now)
            if tag in "=j":
                now["texts"].append((tag == "j", rest))
            elif tag in "yn":
                now["yes" if tag == "y" else "no"] += [c.strip() for c in rest.split(";") if c.strip()]
            elif tag == "c":
                text, _, options = rest.partition(": ")
                options = [[n.strip() for n in o.split(",")] for o in options.split(" | ")]
                if len(options) < 2:
                    raise ValueError(f"{path}:{number}: expected options")
                now["choices"].append((text.strip(), options))
            elif tag == "s":
                text, _, scale = rest.partition(": ")
                levels, _, place = scale.rpartition("@")
                now["scores"].append((text.strip(), [l.strip() for l in levels.split("<")], float(place)))
            else:
                raise ValueError(f"{path}:{number}: unknown line {line!r}")
    for s in found:
        if not s["texts"] or not (s["yes"] or s["choices"]):
            raise ValueError(f"{folder}: a situation without text or questions: {s}")
    return found


def phrase(rng, text: str, bound: dict) -> str:
    """One wording of it, whose slots have the record's values."""

    def fill(found):
        name = found[1]
        if name not in bound:
            bound[name] = slots.FILL[name](rng) if name in slots.FILL else found[0]
            while name in slots.FILL and any(bound[name] == v for n, v in bound.items() if n != name and not n.startswith("small")):
                bound[name] = slots.FILL[name](rng)
        return bound[name]

    return banks.phrase(rng, banks.compile_phrase(re.sub(r"\{(\w+)\}", fill, text)))


class Situations:
    def __init__(self, folder: Path, noise):
        self.noise = noise
        every = read(folder)
        self.held = [s for s in every if HELD.match(s["file"]) and zlib.crc32(s["texts"][0][1].encode()) % 20 == 0]
        held = set(map(id, self.held))
        self.situations = [s for s in every if id(s) not in held]

    def unseen(self):
        """The same maker of the situations that are held back."""
        made = copy.copy(self)
        made.situations = self.held
        return made

    def make(self, rng, examples=()):
        one, bound = rng.choice(self.situations), {}
        is_json, text = rng.choice(one["texts"])
        text = phrase(rng, text, bound)
        draw = rng.random()
        if is_json:
            pass
        elif draw < 0.12:
            filler = banks.phrase(rng, rng.choice(banks.FILLERS))
            text = filler + " " + text if filler.endswith(",") else text + " " + filler
        elif draw < 0.18 and examples:
            text += " " + rng.choice(examples)
        pool = [("y", c) for c in one["yes"]] + [("n", c) for c in one["no"]]
        asked = []
        for _ in range(rng.choice((2, 3, 4, 4, 5, 5))):
            kinds = "nnnnn" + "ccc" * bool(one["choices"]) + "s" * bool(one["scores"])
            kind = rng.choice(kinds)
            if kind == "n" and pool:
                side = rng.choice("yn")
                some = [c for s, c in pool if s == side]
                if some:
                    asked.append(self.claim(rng, phrase(rng, rng.choice(some), bound), side == "y"))
            elif kind == "c":
                question, options = rng.choice(one["choices"])
                wrong = rng.sample(options[1:], min(len(options) - 1, rng.choice((1, 2, 3, 3, 4, 5))))
                if rng.random() < 0.2:
                    other = rng.choice(self.situations)
                    if other is not one and other["choices"]:
                        wrong.append(rng.choice(rng.choice(other["choices"])[1]))
                picked = [(phrase(rng, rng.choice(o), bound), None) for o in [options[0]] + wrong]
                made = asking.choice(rng, phrase(rng, question, bound), asking.identifier(rng, question.split()[-1]), picked, 0, soft=[0.97] + [0.03 / len(wrong)] * len(wrong), other_rate=0.06, keep_text=True)
                if made:
                    asked.append(made)
            elif kind == "s":
                question, levels, place = rng.choice(one["scores"])
                asked.append(asking.score(rng, phrase(rng, question, bound), [phrase(rng, l, bound) for l in levels], place))
        if is_json:
            state = json.loads(text.translate({ord("⟨"): "{", ord("⟩"): "}"}))
            return ({rng.choice(("data", "record", "state", "payload")): state} if rng.random() < 0.2 else state), asked
        if rng.random() < 0.4:
            text = self.noise(rng, text)
        return (rng.choice(banks.WRAPPERS)(rng, text) if rng.random() < 0.1 else text), asked

    def claim(self, rng, text: str, truth: bool):
        statement = not QUESTION.match(text) and not text.endswith("?")
        if statement and " " in text:
            inner = text[:1].lower() + text[1:] if text.split()[0] in ("The", "A", "An", "It", "He", "She", "They", "There", "Somebody", "Someone", "Nobody", "Something", "This", "That", "One") else text
            draw = rng.random()
            if draw < 0.12:
                return asking.noul(rng, rng.choice(UNTRUE).format(inner), 0.04 if truth else 0.96, keep_text=True)
            if draw < 0.35:
                return asking.noul(rng, rng.choice(SURE).format(inner), 0.97 if truth else 0.03, keep_text=True)
        return asking.noul(rng, text, 0.97 if truth else 0.03)
