"""The mixture of all generators, and records as arrays."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import asking
import banks
import corpora
import facts
import fields
import lexicon
import prompt
import rough
import situations

HERE = Path(__file__).parent
NAMES = ("scenarios", "facts", "fields", "words", "people", "situations")
SHARES = (0.16, 0.06, 0.05, 0.03, 0.36, 0.34)
FIRST_SHARES = (0.22, 0.25, 0.27, 0.05, 0.17, 0.04)  # of a worker's first records: what is copied is learned first
FIRST_RECORDS = 6000
MAX_QUESTIONS, MAX_OPTIONS = 6, 26
ROUGH, FRAMED, STRANGE = 0.25, 0.1, 0.3  # shares of records typed in a hurry, framed oddly, asked in another manner


class Mixture:
    """Shares: scenarios of the phrase banks, facts, JSON fields, words, what people wrote (of public datasets), and situations."""

    def __init__(self, wordnet: Path, valences: Path | None, texts: Path | None, shares=SHARES):
        self.lexicon = lexicon.Lexicon(wordnet, valences)
        noise = self.noise = banks.Noise(self.lexicon.synonyms())
        self.makers = [banks.Scenarios(HERE / "banks", noise), facts.Facts(noise), fields.Fields(), self.lexicon]
        self.makers.append(corpora.People(texts, HERE / "labels", noise) if texts else self.makers[0])
        self.makers.append(situations.Situations(HERE / "situations", noise))
        self.shares = shares
        self.examples = [e[:1].upper() + e[1:] + "." for e in self.lexicon.examples if len(e) < 80]

    def unseen(self):
        """Records of situations and of people's texts that are never trained, or None."""
        makers = [m.unseen() for m in self.makers[4:] if hasattr(m, "unseen") and (m.held if isinstance(m.held, list) else any(m.held.values()))]
        if not makers:
            return None
        made = copy.copy(self)
        made.makers, made.shares = makers, [1.0] * len(makers)
        return made

    def record(self, rng: random.Random):
        """(state, questions, targets): targets are probabilities in prompt order."""
        while True:
            maker = rng.choices(self.makers, self.shares)[0]
            state, asked = maker.make(rng, self.examples)
            questions, targets = {}, []
            if rng.random() < ROUGH:
                state = rough.deep(rng, state, rough.roughen)
            if isinstance(state, str) and rng.random() < FRAMED:
                state = rough.frame(rng, state)
            strange = rng.random() < STRANGE
            rng.shuffle(asked)
            seen = set()
            for hint, question, target in asked:
                key = (question["type"], question.get("instructions", hint), len(question.get("criteria") or ()))
                if key in seen or len(questions) == MAX_QUESTIONS:
                    continue
                seen.add(key)
                if "instructions" in question and rng.random() < 0.15:
                    question = {**question, "instructions": self.noise(rng, question["instructions"])}
                question, target = rough.asked(rng, question, target, strange)
                qid = hint if "instructions" not in question and hint not in questions else asking.question_id(rng, hint, questions)
                questions[qid] = question
                if question["type"] == "noul":
                    targets.append([target, 1 - target])
                elif question["type"] == "choice":
                    targets.append([target[name] for name, _ in prompt.options_of(question)])
                else:
                    targets.append(target)
            if questions and sum(map(len, targets)) <= MAX_OPTIONS:
                return state, questions, targets
