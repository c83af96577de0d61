"""The mixture of all generators, and records as arrays."""

from __future__ import annotations

import random
from pathlib import Path

import asking
import banks
import corpora
import facts
import fields
import lexicon
import prompt

HERE = Path(__file__).parent
NAMES = ("scenarios", "facts", "fields", "words", "people")
SHARES = (0.40, 0.12, 0.10, 0.06, 0.32)
FIRST_SHARES = (0.25, 0.25, 0.27, 0.05, 0.18)  # of a worker's first records: what is copied is learned first
FIRST_RECORDS = 6000
MAX_QUESTIONS, MAX_OPTIONS = 6, 26


class Mixture:
    """Shares: scenarios of the phrase banks, facts, JSON fields, words, and what people wrote (of public datasets)."""

    def __init__(self, wordnet: Path, valences: Path | None, texts: Path | None, shares=SHARES):
        self.lexicon = lexicon.Lexicon(wordnet, valences)
        noise = banks.Noise(self.lexicon.synonyms())
        self.makers = [banks.Scenarios(HERE / "banks", noise), facts.Facts(noise), fields.Fields(), self.lexicon]
        self.makers.append(corpora.People(texts, HERE / "labels", noise) if texts else self.makers[0])
        self.shares = shares
        self.examples = [e[:1].upper() + e[1:] + "." for e in self.lexicon.examples if len(e) < 80]

    def record(self, rng: random.Random):
        """(state, questions, targets): targets are probabilities in prompt order."""
        while True:
            maker = rng.choices(self.makers, self.shares)[0]
            state, asked = maker.make(rng, self.examples)
            questions, targets = {}, []
            for hint, question, target in asked[:MAX_QUESTIONS]:
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
