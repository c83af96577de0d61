"""The phrase banks (banks/*.txt) and the scenarios made of them.

A bank is a domain. `## facet` opens something a message can tell (intent, anger, cause); `+ names v= u= : descriptions`
opens one value of it, `?` lines are questions and statements true of that value, `-` lines sentences that say it.
`(a|b)` chooses, `{slot}` is filled. v is the valence, -2 to 2, u the urgency, 0 to 3. In an ordered facet the values
rise and `L` lines name scales over them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import asking
import slots

TOKEN = re.compile(r"\(([^()]*)\)|\{(\w+)\}")


def compile_phrase(text: str):
    """Literal strings, alternatives (lists of compiled phrases) and slot names."""
    parts, at = [], 0
    depth, start = 0, 0
    i = 0
    literal = ""
    while i < len(text):
        c = text[i]
        if c == "(":
            close, depth = i, 0
            for close in range(i, len(text)):
                depth += (text[close] == "(") - (text[close] == ")")
                if depth == 0:
                    break
            inner, options, level, last = text[i + 1 : close], [], 0, 0
            for k, d in enumerate(inner + "|"):
                level += (d == "(") - (d == ")")
                if d == "|" and level == 0:
                    options.append(inner[last:k])
                    last = k + 1
            if literal:
                parts.append(literal)
                literal = ""
            if len(options) == 1:
                parts.append("(" + options[0] + ")")
            else:
                parts.append([compile_phrase(o) for o in options])
            i = close + 1
        elif c == "{":
            close = text.index("}", i)
            if literal:
                parts.append(literal)
                literal = ""
            parts.append((text[i + 1 : close],))
            i = close + 1
        else:
            literal += c
            i += 1
    if literal:
        parts.append(literal)
    return parts


def expand(rng, parts) -> str:
    out = []
    for part in parts:
        if isinstance(part, str):
            out.append(part)
        elif isinstance(part, tuple):
            out.append(slots.FILL[part[0]](rng) if part[0] in slots.FILL else "{" + part[0] + "}")
        else:
            out.append(expand(rng, rng.choice(part)))
    return "".join(out)


def phrase(rng, parts) -> str:
    return asking.clean(expand(rng, parts)).replace(" ,", ",").replace(" .", ".")


@dataclass
class Value:
    names: list[str]
    descriptions: list
    valence: int
    urgency: int
    claims: list = field(default_factory=list)
    sentences: list = field(default_factory=list)


@dataclass
class Facet:
    name: str
    ordered: bool
    main: bool
    domain: str = ""
    questions: list = field(default_factory=list)
    scales: list = field(default_factory=list)
    values: list[Value] = field(default_factory=list)


@dataclass
class Domain:
    name: str
    speaker: str
    facets: list[Facet] = field(default_factory=list)


def load(folder: Path) -> list[Domain]:
    domains = []
    for path in sorted(folder.glob("*.txt")):
        domain = facet = None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            tag, rest = line[:2].strip(), line[2:].strip()
            if tag == "@":
                domain = Domain(*rest.split()[:2])
                domains.append(domain)
            elif tag == "##":
                words = rest.split()
                facet = Facet(words[0], "ordered" in words, "main" in words, domain.name)
                domain.facets.append(facet)
            elif tag == "Q":
                facet.questions.append(compile_phrase(rest))
            elif tag == "L":
                facet.scales.append([l.strip() for l in rest.split("<")])
            elif tag == "+":
                head, _, descriptions = rest.partition(" : ")
                found = re.search(r"\s+v=(-?\d) u=(\d)\s*$", head)
                if not found:
                    raise ValueError(f"{path}:{number}: expected v= and u=")
                names = [n.strip() for n in head[: found.start()].split(",")]
                facet.values.append(Value(names, [compile_phrase(d.strip()) for d in descriptions.split(" ; ") if d.strip()], int(found[1]), int(found[2])))
            elif tag == "?":
                facet.values[-1].claims += [compile_phrase(c.strip()) for c in rest.split(" ; ")]
            elif tag == "-":
                facet.values[-1].sentences.append(compile_phrase(rest))
            elif tag:
                raise ValueError(f"{path}:{number}: unknown line {line!r}")
        for f in domain.facets:
            for v in f.values:
                if not v.sentences:
                    raise ValueError(f"{path}: {f.name}: {v.names[0]} has no sentence")
    return domains


FILLERS = [compile_phrase(t) for t in """(Hi|Hello|Good morning|Dear team|Hey there|Good evening|To whom it may concern),
(Hi|Hello|Dear) {name},
(Kind regards|Regards|Best|Cheers|Yours sincerely), {name}
{name}, {city}
My (customer|order|reference|booking|member) number is {n}.
(We met|I was there|I wrote this) (on {day}|in {month}|last year).
I (live|work) (in|near) {city}.
(My colleague|My wife|A friend|{name}) (told me|said I should|suggested) to write to you.
(It is|The model is) (the {color} one|from {month}|number {n}).
(By the way, the|The) weather (here|in {city}) is (nice|grey|fine|cold).
I am (writing|sending this) from my (phone|office|kitchen).
(See|Look at) the (attachment|photo|notes) (below|attached|enclosed).
(We have|I have) been (here|with you|using it) for {small} years.
Sent from my phone""".splitlines()]

JOINERS = [" ", " ", " ", " ", "\n", "\n\n", " Also, ", " And ", " - ", " ... "]
SLANG = {"you": "u", "please": "pls", "because": "cuz", "are": "r", "thanks": "thx", "tomorrow": "tmrw", "your": "ur", "people": "ppl", "really": "rly", "with": "w"}
EXPANDED = {"I am": "I'm", "do not": "don't", "does not": "doesn't", "cannot": "can't", "is not": "isn't", "it is": "it's", "It is": "It's", "I have": "I've", "will not": "won't", "did not": "didn't", "has not": "hasn't", "have not": "haven't", "was not": "wasn't"}


def typo(rng, word: str) -> str:
    if len(word) < 4:
        return word
    i = rng.randint(1, len(word) - 2)
    kind = rng.random()
    if kind < 0.4:
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    if kind < 0.7:
        return word[:i] + word[i + 1 :]
    return word[:i] + word[i] + word[i:]


class Noise:
    """Surface changes that keep the meaning: contractions, synonyms, case, slang, slips of the finger."""

    def __init__(self, synonyms: dict[str, list[str]]):
        self.synonyms = synonyms

    def __call__(self, rng, text: str) -> str:
        if rng.random() < 0.4:
            for long, short in EXPANDED.items():
                if long in text and rng.random() < 0.7:
                    text = text.replace(long, short)
        if rng.random() < 0.35:
            words = text.split(" ")
            for i, w in enumerate(words):
                bare = w.strip(".,!?").lower()
                if bare in self.synonyms and rng.random() < 0.18:
                    other = rng.choice(self.synonyms[bare])
                    words[i] = w.lower().replace(bare, other) if bare in w.lower() else w
            text = " ".join(words)
        draw = rng.random()
        if draw < 0.1:
            text = text.lower()
        elif draw < 0.115:
            text = text.upper()
        elif draw < 0.17:
            text = " ".join(SLANG.get(w, w) for w in text.lower().split(" "))
        if rng.random() < 0.1:
            text = " ".join(typo(rng, w) if rng.random() < 0.08 else w for w in text.split(" "))
        if rng.random() < 0.08:
            text = text.rstrip(".!")
        return text


VALENCE_NAMES = [("negative", "neutral", "positive"), ("bad", "neutral", "good"), ("unhappy", "neutral", "happy"), ("unfavourable", "neutral", "favourable"),
                 ("dissatisfied", "indifferent", "satisfied"), ("bad", "so-so", "good"), ("sad", "neutral", "glad"), ("displeased", "neutral", "pleased"), ("critical", "neutral", "appreciative")]
VALENCE_SCALES = ["negative < neutral < positive", "bad < neutral < good", "very dissatisfied < dissatisfied < neutral < satisfied < very satisfied",
                  "unhappy < neutral < happy", "sad < neutral < delighted", "very bad < bad < okay < good < very good", "awful < meh < good < amazing",
                  "1 < 2 < 3 < 4 < 5", "very negative < negative < neutral < positive < very positive", "miserable < neutral < delighted", "poor < fair < good < excellent"]
VALENCE_TEXTS = ["What is the sentiment?", "Sentiment", "Sentiment of the {}", "How does the {} feel?", "Mood of the {}", "Tone of the message", "Overall tone",
                 "Is it good or bad?", "How satisfied is the {}?", "How happy is the {}?", "Attitude of the {}", "What mood is the {} in?"]
VALENCE_CLAIMS = [("Is the {} (happy|pleased|satisfied|content)?", 1), ("Is the {} (unhappy|displeased|dissatisfied|upset)?", -1), ("Is it a complaint?", -1), ("Is (the message|it|the text) negative?", -1),
                  ("Is (the message|it|the text) positive?", 1), ("Is something (wrong|criticised)?", -1), ("the {} is satisfied", 1), ("the {} complains", -1), ("Is it good news?", 1), ("Is it bad news?", -1), ("Does the {} have a problem?", -1), ("complaint", -1), ("positive", 1), ("negative", -1)]
VALENCE_CLAIMS = [(compile_phrase(t), s) for t, s in VALENCE_CLAIMS]
NEUTRAL_VALENCE_CLAIMS = [(compile_phrase(t), s) for t, s in [("Is (the text|it) positive?", 1), ("Is (the text|it) negative?", -1), ("Is it good news?", 1), ("Is it bad news?", -1), ("positive", 1), ("negative", -1), ("Is something wrong?", -1)]]
VOICED = {"support", "review", "bank", "travel", "food", "software", "home"}  # domains where somebody is pleased or complains
URGENCY_SCALES = ["low < medium < high", "can wait < soon < immediately", "not urgent < somewhat urgent < urgent < very urgent", "low < normal < high < critical", "whenever < this week < today",
                  "none < low < medium < high", "no hurry < moderate < pressing", "ignore < look at it this week < act today < act right now", "relaxed < moderate < pressing", "whenever < soon < emergency", "low < high"]
URGENCY_TEXTS = ["How urgent is it?", "Urgency", "Priority", "How quickly must someone react?", "How soon must somebody act?", "How pressing is it?", "How fast must we react?", "Urgency of the matter", "How important is a quick answer?"]
URGENCY_CLAIMS = [compile_phrase(t) for t in ["Is it (urgent|pressing)?", "Must somebody act (at once|now|quickly)?", "Should (it|this) be handled (immediately|first)?", "urgent", "Is it an emergency?", "needs immediate attention"]]
NOT_URGENT_CLAIMS = [compile_phrase(t) for t in ["Can it wait?", "Is there (time|no hurry)?", "can wait"]]
WRAPPERS = [lambda r, t: {"message": t}, lambda r, t: {"text": t, "channel": r.choice(("email", "chat", "phone", "form"))}, lambda r, t: {"from": slots.name(r), "subject": r.choice(("Hello", "Question", "Re: " + slots.word(r), "(no subject)")), "body": t},
            lambda r, t: {"id": r.randint(1, 99999), "content": t}, lambda r, t: {"ticket": {"number": r.randint(1, 9999), "text": t}, "language": "en"}, lambda r, t: {"messages": [{"role": r.choice(("user", "customer")), "content": t}]},
            lambda r, t: "Subject: " + r.choice(("Hello", "Question", "My matter", "Hi")) + "\n\n" + t, lambda r, t: r.choice(("Message: ", "User: ", "Text: ", "Note: ", "From {}: ".format(slots.name(r)))) + t, lambda r, t: '"' + t + '"']


class Scenarios:
    def __init__(self, folder: Path, noise: Noise):
        self.noise = noise
        self.domains = load(folder)
        self.facets = [f for d in self.domains for f in d.facets]
        self.everything = [(f, v) for f in self.facets for v in f.values if not f.ordered]
        self.names = {}
        for f, v in self.everything:
            for n in v.names:
                self.names.setdefault(n, set()).add(id(v))

    def option(self, rng, value: Value):
        spread = value.names[:2] if rng.random() < 0.4 else value.names
        description = phrase(rng, rng.choice(value.descriptions)) if value.descriptions else None
        return rng.choice(spread), description

    def make(self, rng, examples=()):
        """(state, [(question id, question, target)])"""
        domain = rng.choice(self.domains)
        mains = [f for f in domain.facets if f.main]
        main = rng.choice(mains) if rng.random() < 0.7 else rng.choice(domain.facets)
        told = {id(main): (main, rng.choice(main.values))}
        sentences = [phrase(rng, s) for s in rng.sample(told[id(main)][1].sentences, min(len(told[id(main)][1].sentences), 1 + (rng.random() < 0.3)))]
        side_rate = rng.choice((0.0, 0.15, 0.35))
        for f in domain.facets:
            if f is not main and not f.main and rng.random() < side_rate and len(told) < 4:
                told[id(f)] = (f, rng.choice(f.values))
                sentences.append(phrase(rng, rng.choice(told[id(f)][1].sentences)))
        if rng.random() < 0.25:
            tail = sentences[1:]
            rng.shuffle(sentences if rng.random() < 0.5 else tail)
        if rng.random() < 0.3:
            filler = phrase(rng, rng.choice(FILLERS))
            sentences.insert(0 if filler.endswith(",") else rng.randint(0, len(sentences)), filler)
        if examples and rng.random() < 0.08:
            sentences.insert(rng.randint(0, len(sentences)), rng.choice(examples))
        text = sentences[0]
        for s in sentences[1:]:
            text += rng.choice(JOINERS) + s
        text = self.noise(rng, text)
        state = text
        if rng.random() < 0.2:
            state = rng.choice(WRAPPERS)(rng, text)
        return state, self.questions(rng, domain, told)

    def questions(self, rng, domain, told):
        asked = []
        facts = list(told.values())
        count = rng.choice((2, 3, 3, 4, 4, 5))
        for _ in range(count):
            facet, value = rng.choice(facts)
            draw = rng.random()
            if facet.ordered and draw < 0.45:
                made = self.level(rng, facet, value)
            elif draw < 0.45:
                made = self.pick(rng, domain, facet, value, told)
            elif draw < 0.78:
                made = self.claim(rng, domain, facet, value, told)
            elif draw < 0.9:
                made = self.valence(rng, domain, facts)
            else:
                made = self.urgency(rng, facts)
            if made:
                asked.append(made)
        return asked

    def pick(self, rng, domain, facet, value, told):
        text = phrase(rng, rng.choice(facet.questions)) if facet.questions else "Which one fits?"
        mine = set(value.names)
        others = [v for v in facet.values if v is not value]
        size = rng.choice((1, 2, 3, 3, 4, 5))
        if rng.random() < 0.3 or not others:
            seen = {id(f) for f, _ in told.values()}
            pool = [v for f, v in rng.sample(self.everything, 24) if id(f) not in seen and f.domain != domain.name]
            text = rng.choice((text, "What is it about?", "Topic", "Which label fits?", "Category", "What is the text about?", "Best match", "Subject"))
            wrong = pool[:size]
        else:
            wrong = rng.sample(others, min(size, len(others)))
        options = [self.option(rng, value)] + [o for o in (self.option(rng, v) for v in wrong) if o[0] not in mine]
        if rng.random() < 0.07 and len(options) > 2:
            return asking.choice(rng, text, asking.identifier(rng, facet.name), options[1:], None)
        return asking.choice(rng, text, asking.identifier(rng, facet.name), options, 0)

    def claim(self, rng, domain, facet, value, told):
        draw = rng.random()
        if draw < 0.47 and value.claims:
            return asking.noul(rng, phrase(rng, rng.choice(value.claims)), 0.97)
        if draw < 0.85:
            wrong = [v for v in facet.values if v is not value and v.claims]
            if facet.ordered:
                at = facet.values.index(value)
                wrong = [v for v in wrong if abs(facet.values.index(v) - at) > (1 if len(facet.values) > 3 else 0)]
        else:
            pool = [(f, v) for f, v in rng.sample(self.everything, 12) if f.domain != domain.name and v.claims]
            wrong = [v for _, v in pool]
        if not wrong:
            return None
        return asking.noul(rng, phrase(rng, rng.choice(rng.choice(wrong).claims)), 0.03)

    def level(self, rng, facet, value):
        top = len(facet.values) - 1
        position = facet.values.index(value) / top if top else 0.5
        text = phrase(rng, rng.choice(facet.questions))
        return asking.score(rng, text, list(rng.choice(facet.scales)), position)

    def valence(self, rng, domain, facts):
        values = [v.valence for _, v in facts]
        low, high = min(values), max(values)
        who = rng.choice((domain.speaker, "writer", "author", "person"))
        mixed = low < 0 < high
        total = low + high if mixed else (low if low < 0 else high)
        draw = rng.random()
        text = rng.choice(VALENCE_TEXTS).format(who)
        if draw < 0.4:
            names = list(rng.choice(VALENCE_NAMES))
            soft = [0.02, 0.96, 0.02]
            if mixed:
                soft = [0.35, 0.3, 0.35]
            elif total:
                strength = 0.96 if abs(total) > 1 else 0.84
                soft = [0.01, 0.99 - strength, strength] if total > 0 else [strength, 0.99 - strength, 0.01]
            if mixed or rng.random() < 0.25:
                names.append("mixed")
                soft = [0.08, 0.04, 0.08, 0.8] if mixed else soft + [0.02]
            options = [(n, None) for n in names]
            if not mixed and total and rng.random() < 0.35:
                del options[1], soft[1]
            return asking.choice(rng, text, rng.choice(("sentiment", "tone", "mood", "opinion")), options, 0, soft=soft, other_rate=0.0)
        if draw < 0.7:
            if total == 0:
                return None
            claim, sign = rng.choice(VALENCE_CLAIMS if domain.name in VOICED else NEUTRAL_VALENCE_CLAIMS)
            agrees = (sign > 0) == (total > 0)
            sure = 0.97 if abs(total) > 1 else 0.9
            return asking.noul(rng, phrase(rng, claim).format(who), sure if agrees else 1 - sure)
        return asking.score(rng, text, [s.strip() for s in rng.choice(VALENCE_SCALES).split("<")], (max(-2, min(2, total)) + 2) / 4)

    def urgency(self, rng, facts):
        u = max(v.urgency for _, v in facts)
        draw = rng.random()
        if any(f.name in ("deadline", "urgency", "when") for f, _ in facts):
            u = max(v.urgency for f, v in facts if f.name in ("deadline", "urgency", "when"))
        if draw < 0.45:
            p = (0.03, 0.15, 0.8, 0.97)[u]
            if rng.random() < 0.25:
                return asking.noul(rng, phrase(rng, rng.choice(NOT_URGENT_CLAIMS)), 1 - p)
            return asking.noul(rng, phrase(rng, rng.choice(URGENCY_CLAIMS)), p)
        return asking.score(rng, rng.choice(URGENCY_TEXTS), [s.strip() for s in rng.choice(URGENCY_SCALES).split("<")], (0.03, 0.36, 0.75, 0.98)[u])
