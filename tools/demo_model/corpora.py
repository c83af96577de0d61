"""Questions about what people wrote: utterances, comments and pairs of public datasets (extract_corpora.py), with our own words for their labels.

`labels/*.txt` holds, for each dataset, `@ names of a domain` and below it `label = names | what the person wants`; emotions carry a
valence and descriptions, slots a description and nouns. Labels themselves are seldom shown: the wording is what generalises.
"""

from __future__ import annotations

import copy
import json
import lzma
import re
import zlib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import asking
import banks
import reading

WHO = ["user", "customer", "person", "writer", "speaker", "client", "caller", "author", "sender"]
NEAR = [set(g.split()) for g in """anger annoyance disapproval disgust;joy excitement amusement love;sadness disappointment grief remorse;fear nervousness;
admiration approval love pride joy;confusion curiosity realization surprise;caring love;gratitude joy admiration;optimism desire excitement approval;
embarrassment remorse;relief joy""".replace("\n", "").split(";")]
WANTS = ["What does the {} want?", "What is the {} asking for?", "Intent", "Intent of the message", "Which intent fits?", "What is the request?", "What is it about?", "Reason for contact",
         "Topic", "Category of the request", "What should be done?", "Which label fits best?", "Why does the {} write?", "What is the {} trying to do?", "Purpose of the message", "Route to",
         "Which task is this?", "Classify the message.", "What does the {} need?", "Subject of the message"]
AREAS = ["Which area is it?", "Domain", "Which department is this for?", "Area", "Which skill is needed?", "General topic", "What field is it about?", "Which team should get it?", "Which category does the message belong to?"]
CLAIMS = ["Does the {who} want to {do}?", "Does the {who} want to {do}?", "The {who} wants to {do}", "Is the {who} trying to {do}?", "Is it a request to {do}?", "Would the {who} like to {do}?",
          "Does somebody want to {do}?", "Is the aim to {do}?", "Does the {who} ask how to {do}?", "Somebody wants to {do}", "Should one help the {who} to {do}?", "The purpose is to {do}", "Does this come from a {who} who wants to {do}?"]
DENIED = ["The {who} does not want to {do}", "It is not about this: {do}", "Is the {who} after something else than to {do}?", "Nobody here wants to {do}", "The aim is something other than to {do}", "Is it wrong that the {who} wants to {do}?"]
NAMED = ["Is it about {}?", "Is this about {}?", "It is about {}", "Is the topic {}?", "{}?", "Does the message concern {}?", "Is the matter {}?", "Does this belong under {}?"]
IN_AREA = ["Is it about {}?", "Does it concern {}?", "Is {} the topic?", "The message belongs to {}", "Is this a matter of {}?"]
PRESENT = ["Is {} mentioned?", "Does the text name {}?", "Does the message contain {}?", "Is {} given?", "{} is mentioned", "Does the {who} say {}?"]
WHICH = ["Which {} is mentioned?", "Which {}?", "{}", "What is the {}?", "Name the {}.", "Which {} does the {who} mean?"]
ABSENT = ["not mentioned", "none", "not given", "no answer", "not stated", "unknown"]
FEELS = ["Which emotion does the {} show?", "Emotion", "What does the {} feel?", "Which feeling fits best?", "Feeling of the {}", "How does the {} feel?", "Tone", "Mood of the comment", "Reaction of the {}"]
SHOWS = ["Does the {who} show {}?", "Is the {who} full of {}?", "One reads {} in it", "Would you call it {}?", "{}", "Does the text express {}?", "Is there {} in the text?", "The {who} feels {}", "Can one sense {}?", "{} is expressed"]
FOLLOWS = [("follows", "contradicted", "unclear"), ("true", "false", "unknown"), ("yes", "no", "cannot tell"), ("entailment", "contradiction", "neutral"), ("supported", "refuted", "not enough information")]
HARM = [["harmless", "offensive", "hate speech"], ["fine", "rude", "hateful"], ["acceptable", "insulting", "hate"], ["clean", "vulgar", "hate speech"]]
HARM_SCALES = ["harmless < rude < hateful", "none < mild < severe", "fine < offensive < hate speech", "low < medium < high", "keep < hide < ban"]
RATING_TEXTS = ["Which rating is given?", "Rating", "How good does the {} find it?", "How many points?", "Score given", "How does the {} rate the book?"]


REVIEW_TEXTS = ["Rating", "Verdict", "How good is it?", "How much does the {} like it?", "Stars", "How content is the {}?", "How many stars?"]
REVIEW_SCALES = ["1 star < 2 stars < 3 stars < 4 stars < 5 stars", "bad < okay < great", "hates it < dislikes it < neutral < likes it < loves it", "terrible < mediocre < excellent", "bad < fine < superb", "poor < average < good < excellent"]
REVIEW_CLAIMS = [("Is the review positive?", 1), ("Is the review negative?", -1), ("Does the reviewer like it?", 1), ("Is the customer satisfied?", 1), ("Is the customer disappointed?", -1), ("Is it praise?", 1), ("Is it a complaint?", -1),
                 ("Would the writer buy it again?", 1), ("positive", 1), ("negative", -1), ("The reviewer is happy", 1), ("Does the reviewer warn others?", -1), ("Is the reviewer enthusiastic?", 1), ("Was it worth the money?", 1)]
SPAM_CLAIMS = [("Is it spam?", 1), ("Is the message advertising?", 1), ("Is it a private message?", -1), ("Is the message from a friend?", -1), ("spam", 1), ("Does somebody want to sell something?", 1), ("Is the text harmless?", -1), ("Should it be filtered out?", 1)]


@dataclass
class Label:
    names: list[str]
    wishes: list[str]
    domain: tuple = ()
    valence: int = 0


def read_labels(path: Path) -> dict[str, Label]:
    found, domain = {}, ()
    for line in path.read_text().splitlines():
        if line.startswith("@"):
            domain = tuple(n.strip() for n in line[1:].split(","))
        elif line.strip():
            head, _, rest = line.partition(" = ")
            label, _, valence = head.partition(" v=")
            names, _, wishes = rest.partition(" | ")
            found[label] = Label([n.strip() for n in names.split(",")], [w.strip() for w in wishes.split(";") if w.strip()], domain, int(valence or 0))
    return found


def upper(text: str) -> str:
    return text[:1].upper() + text[1:]


LABELLED = ("clinc", "banking", "nlu", "snips", "nlupp", "emotions", "sgd", "bitext", "customers", "counsel", "campers")
BY_LABEL = ("clinc", "banking", "nlu", "snips", "sgd", "bitext", "customers", "counsel")


HELD = frozenset("snli qnli cosmos boolq conda bbq sense headlines toxic wellformed bitext customers sgd dialogues campers counsel".split())  # the spans before read all of the others


def unseen(text: str) -> bool:
    """A twentieth of these texts is never trained: it tells how sure the model may be of what it has not seen."""
    return zlib.crc32(text.encode()) % 20 == 0


class People(reading.Reading):
    SHARES = {"clinc": 15, "banking": 10, "nlu": 10, "snips": 7, "nlupp": 5, "emotions": 14, "mnli": 15, "tweets": 3, "reviews": 8, "sms": 3,
              "snli": 12, "qnli": 3, "cosmos": 3, "boolq": 2, "conda": 3, "bbq": 1, "sense": 10, "headlines": 4, "toxic": 2, "wellformed": 2, "bitext": 8, "customers": 7, "sgd": 9, "dialogues": 14, "campers": 3, "counsel": 1}

    def __init__(self, texts: Path, folder: Path, noise):
        self.noise = noise
        self.labels = {n: read_labels(folder / f"{n}.txt") for n in LABELLED}
        self.slots = read_labels(folder / "slots.txt")
        self.values, self.told = defaultdict(list), defaultdict(list)
        every = defaultdict(list)
        with lzma.open(texts, "rt", encoding="utf-8") as f:
            for line in f:
                item = json.loads(line)
                kind, label = item["s"], item.get("l")
                if kind in self.labels and not isinstance(label, list) and label != "oos" and label not in self.labels[kind]:
                    raise ValueError(f"{texts}: {kind}: no words for the label {label!r}")
                every[kind].append(item)
                item["v"] = [(n, v) for n, v in item.get("v", []) if n in self.slots and len(v) < 40]
                for n, v in item["v"]:
                    self.values[n].append(v)
                for n, v in item.get("x", ()):
                    self.told[n].append(v)
        self.held = {k: [i for i in every[k] if unseen(i["t"])] for k in HELD}
        self.take({k: [i for i in items if k not in HELD or not unseen(i["t"])] for k, items in every.items()})

    def take(self, items):
        self.items, self.groups = items, defaultdict(list)
        for kind in ("mnli", "snli", "cosmos", "boolq", "conda", "bbq"):
            for item in items.get(kind, ()):
                self.groups[kind, item["t"]].append(item)
        self.by_label = {k: self.grouped(k) for k in BY_LABEL if k in items}
        self.kinds = [k for k in self.SHARES if items.get(k)]
        self.weights = [self.SHARES[k] for k in self.kinds]

    def unseen(self):
        """The same maker of the texts that are held back."""
        made = copy.copy(self)
        made.take(self.held)
        return made

    def grouped(self, kind):
        found = defaultdict(list)
        for item in self.items[kind]:
            found[item["l"]].append(item)
        return found

    def make(self, rng, examples=()):
        kind = rng.choices(self.kinds, self.weights)[0]
        if kind in self.by_label:
            label = rng.choice(list(self.by_label[kind])) if rng.random() < 0.8 else None
            item = rng.choice(self.by_label[kind][label] if label else self.items[kind])
        else:
            item = rng.choice(self.items[kind])
        if kind in ("sense", "dialogues"):
            state, asked = self.sense(rng, item) if kind == "sense" else self.dialogue(rng, item)
            return self.noise(rng, state) if isinstance(state, str) and rng.random() < 0.2 else state, [a for a in asked if a]
        ask = {"emotions": self.emotion, "mnli": self.inference, "snli": self.inference, "tweets": self.harm, "reviews": self.review, "sms": self.spam, "nlupp": self.several, "qnli": self.answerable, "cosmos": self.multiple, "bbq": self.multiple,
               "boolq": self.yes_no, "conda": self.yes_no, "headlines": self.headline, "toxic": self.toxicity, "wellformed": self.well_formed, "campers": self.strategy}.get(kind, self.intent)
        who = rng.choice(WHO)
        count = rng.choice((1, 2, 3, 3, 4, 4, 5))
        asked = [a for a in (ask(rng, item, who) for _ in range(count)) if a]
        text = item["t"]
        if rng.random() < 0.2:
            text = self.noise(rng, text)
        elif rng.random() < 0.3:
            text = upper(text) if rng.random() < 0.7 else text.lower()
        state = text
        draw = rng.random()
        if draw < 0.14:
            state = rng.choice(banks.WRAPPERS)(rng, text)
        elif draw < 0.2 and kind in self.by_label:
            other = rng.choice(self.items[kind])["t"]
            talk = [{"role": "user", "content": other}, {"role": "assistant", "content": rng.choice(("Done.", "Sure.", "Okay, anything else?", "All right."))}, {"role": "user", "content": text}]
            state = {"messages": talk}
            about = rng.choice(("last message", "latest message", "newest message"))
            asked = [(q, {**d, "instructions": d.get("instructions", "What does the user want?").rstrip(".") + f" ({about})"}, t) for q, d, t in asked]
        return state, asked

    # Intents, areas, slots

    def option(self, rng, label: Label, key: str, who: str):
        draw = rng.random()
        name = rng.choice(label.names) if draw < 0.8 else rng.choice(label.wishes) if draw < 0.93 else re.sub("[_ ]+", " ", re.sub("(?<=[a-z])(?=[A-Z])", " ", key)).lower()
        wish = rng.choice(label.wishes)
        return name, rng.choice(("Wants to {}", "The {who} wants to {}", "To {}", "Request to {}", "Asks to {}", "Somebody who wants to {}")).format(wish, who=who)

    def intent(self, rng, item, who):
        kind, key = item["s"], item["l"]
        labels = self.labels[kind]
        label = labels.get(key)
        draw = rng.random()
        if item["v"] and draw < 0.3 or kind in ("nlu", "snips") and draw < 0.06:
            return self.slot(rng, item, who)
        if kind == "snips" and key == "RateBook" and draw < 0.6:
            made = self.rating(rng, item, who)
            if made:
                return made
        if label is None:
            wrong = rng.sample(list(labels), rng.choice((2, 3, 4, 5)))
            if draw < 0.6:
                return asking.choice(rng, rng.choice(WANTS).format(who), "intent", [self.option(rng, labels[k], k, who) for k in wrong], None)
            return asking.noul(rng, rng.choice(CLAIMS).format(who=who, do=rng.choice(labels[wrong[0]].wishes)), 0.03)
        near = [k for k, l in labels.items() if l.domain == label.domain and k != key]
        far = [k for k, l in labels.items() if l.domain != label.domain]
        if draw < 0.45:
            size = rng.choice((1, 2, 3, 3, 4, 5, 6))
            hard = rng.random() < 0.4 or not far
            wrong = rng.sample(near, min(size, len(near))) if hard else rng.sample(far, min(size, len(far)))
            if not wrong:
                return None
            options = [self.option(rng, labels[k], k, who) for k in [key] + wrong]
            wants = rng.choice(WANTS).format(who)
            if rng.random() < 0.08 and len(wrong) > 1:
                return asking.choice(rng, wants, "intent", options[1:], None)
            slip = 0.05 / len(wrong) if hard else 0.01 / len(wrong)
            return asking.choice(rng, wants, rng.choice(("intent", "request", "topic", "label", "task", "category")), options, 0, soft=[1 - slip * len(wrong)] + [slip] * len(wrong))
        if draw < 0.52 and len({l.domain for l in labels.values()}) > 2:
            domains = list({l.domain for l in labels.values() if l.domain != label.domain})
            domains = [label.domain] + rng.sample(sorted(domains), min(rng.choice((1, 2, 3, 4)), len(domains)))
            return asking.choice(rng, rng.choice(AREAS), rng.choice(("area", "domain", "team", "skill")), [(rng.choice(d), None) for d in domains], 0, soft=[0.96] + [0.04 / (len(domains) - 1)] * (len(domains) - 1))
        if draw < 0.58 and far:
            domain = label.domain if rng.random() < 0.5 else labels[rng.choice(far)].domain
            return asking.noul(rng, rng.choice(IN_AREA).format(rng.choice(domain)), 0.95 if domain == label.domain else 0.05)
        truth = rng.random() < 0.5
        other = labels[rng.choice(near if near and rng.random() < 0.6 else far or near)] if not truth else label
        kind = rng.random()
        if kind < 0.12:
            return asking.noul(rng, rng.choice(DENIED).format(who=who, do=rng.choice(other.wishes)), 0.05 if truth else 0.95)
        if kind < 0.65:
            text = rng.choice(CLAIMS).format(who=who, do=rng.choice(other.wishes))
        else:
            text = rng.choice(NAMED).format(rng.choice(other.names))
        return asking.noul(rng, upper(text), 0.96 if truth else 0.04)

    def slot(self, rng, item, who):
        given = dict(item["v"])
        pool = [n for n in ("date", "time", "place_name", "person", "city", "food_type", "device_type", "artist", "color_type", "rating_value", "currency_name") if n not in given]
        draw = rng.random()
        name = rng.choice(list(given)) if given and draw < 0.72 else rng.choice(pool)
        a, nouns = self.slots[name].names[0], [n for n in self.slots[name].names[1:] if n.split()[0] not in ("who", "where", "when", "how")]
        if rng.random() < 0.3:
            return asking.noul(rng, upper(rng.choice(PRESENT).format(a, who=who)), 0.96 if name in given else 0.06)
        others = {v for v in rng.sample(self.values[name], min(12, len(self.values[name]))) if v.lower() not in item["t"].lower()}
        others = sorted(others)[: rng.choice((1, 2, 3, 4))]
        if not others:
            return None
        if name in given and rng.random() < 0.35:
            truth = rng.random() < 0.5
            return asking.noul(rng, f"Is the {rng.choice(nouns)} {given[name] if truth else others[0]}?", 0.96 if truth else 0.03)
        options = [(v, None) for v in others]
        which = upper(rng.choice(WHICH).format(rng.choice(nouns), who=who))
        if name in given:
            if rng.random() < 0.3:
                options.append((rng.choice(ABSENT), None))
            return asking.choice(rng, which, nouns[0].split()[0], [(given[name], None)] + options, 0)
        return asking.choice(rng, which, nouns[0].split()[0], [(rng.choice(ABSENT), None)] + options, 0, other_rate=0.0)

    def rating(self, rng, item, who):
        given = dict(item["v"])
        words = {w: i for i, w in enumerate("zero one two three four five six".split())}
        number = lambda t: int(t) if t.isdigit() else words.get(t.lower())
        value, best = number(given.get("rating_value", "")), number(given.get("best_rating", ""))
        if value is None or not best or value > best:
            return None
        levels = rng.choice(([str(i) for i in range(best + 1)], "very bad < bad < okay < good < very good".split(" < "), "bad < fine < excellent".split(" < "), "terrible < mediocre < great".split(" < "), "low < medium < high".split(" < ")))
        if rng.random() < 0.3:
            return asking.noul(rng, rng.choice(("Is it a good rating?", "Does the {} like the book?", "Is the rating high?")).format(who), 0.96 if value / best > 0.6 else 0.05 if value / best < 0.4 else 0.4)
        return asking.score(rng, rng.choice(RATING_TEXTS).format(who), list(levels), value / best)

    def several(self, rng, item, who):
        """Texts with several intents at once: each is a claim of its own."""
        labels = self.labels["nlupp"]
        mine = [k for k in item["l"] if k in labels]
        if item["v"] and rng.random() < 0.3:
            return self.slot(rng, item, who)
        wrong = [k for k in labels if k not in item["l"] and not (k in ("request_info", "change", "acknowledge", "new", "existing") or mine and k.startswith(("how", "when")))]
        if not mine or rng.random() < 0.65:
            truth = mine and rng.random() < 0.5
            label = labels[rng.choice(mine if truth else wrong)]
            text = rng.choice(CLAIMS).format(who=who, do=rng.choice(label.wishes)) if rng.random() < 0.6 else rng.choice(NAMED).format(rng.choice(label.names))
            return asking.noul(rng, upper(text), 0.95 if truth else 0.05)
        options = [self.option(rng, labels[k], k, who) for k in [rng.choice(mine)] + rng.sample(wrong, min(len(wrong), rng.choice((1, 2, 3, 4))))]
        return asking.choice(rng, rng.choice(WANTS).format(who), "intent", options, 0, soft=[0.95] + [0.05 / (len(options) - 1)] * (len(options) - 1))

    # Emotions, truth, harm

    def emotion(self, rng, item, who):
        labels, mine = self.labels["emotions"], item["l"]
        near = set().union(*(g for m in mine for g in NEAR if m in g)) | set(mine)
        far = [k for k in labels if k not in near and (k != "neutral" or rng.random() < 0.4)]
        feeling = [m for m in mine if m != "neutral"]
        total = sum(labels[m].valence for m in mine)
        draw = rng.random()
        if draw < 0.42 and far:
            truth = mine if len(mine) > 1 and rng.random() < 0.3 else [rng.choice(mine)]
            wrong = rng.sample(far, min(len(far), rng.choice((1, 2, 3, 3, 4, 5))))
            if rng.random() < 0.2:
                wrong = [w for w in rng.sample(list(labels), 4) if w not in mine]
            if not wrong:
                return None
            names = [(rng.choice(labels[k].names), rng.choice(labels[k].wishes)) for k in truth + wrong]
            soft = [0.9 / len(truth)] * len(truth) + [0.1 / len(wrong)] * len(wrong)
            return asking.choice(rng, rng.choice(FEELS).format(who), rng.choice(("emotion", "feeling", "tone", "mood")), names, 0, soft=soft, other_rate=0.04)
        if draw < 0.68:
            truth = feeling and rng.random() < 0.5
            key = rng.choice(feeling) if truth else rng.choice([k for k in far if k != "neutral"] or ["grief"])
            if rng.random() < 0.35:
                text = rng.choice(labels[key].wishes)
                return asking.noul(rng, rng.choice(("The {} " + text[:1].lower() + text[1:], "{}: " + text)).format(who) if rng.random() < 0.7 else text, 0.92 if truth else 0.06)
            return asking.noul(rng, upper(rng.choice(SHOWS).format(rng.choice(labels[key].names[:1]), who=who)), 0.92 if truth else 0.06)
        if any(labels[m].valence > 0 for m in mine) and any(labels[m].valence < 0 for m in mine):
            return None
        sure = 0.92 if abs(total) > 1 else 0.82
        text = rng.choice(banks.VALENCE_TEXTS).format(who)
        if draw < 0.82:
            soft = [sure, 0.95 - sure, 0.05] if total < 0 else [0.05, 0.95 - sure, sure] if total > 0 else [0.13, 0.74, 0.13]
            options = [(n, None) for n in rng.choice(banks.VALENCE_NAMES)]
            if total and rng.random() < 0.3:
                del options[1], soft[1]
            return asking.choice(rng, text, rng.choice(("sentiment", "tone", "mood")), options, 0, soft=soft, other_rate=0.0)
        if draw < 0.91 and total:
            claim, sign = rng.choice(banks.NEUTRAL_VALENCE_CLAIMS)
            return asking.noul(rng, banks.phrase(rng, claim), sure if (sign > 0) == (total > 0) else 1 - sure)
        return asking.score(rng, text, [s.strip() for s in rng.choice(banks.VALENCE_SCALES).split("<")], (max(-2, min(2, total)) + 2) / 4, spread=0.6)

    def inference(self, rng, item, who):
        draw = rng.random()
        if draw < 0.3:
            group = self.groups[item["s"], item["t"]]
            true = [i["h"] for i in group if i["l"] == "entailment"]
            false = [i["h"] for i in group if i["l"] == "contradiction"]
            if true and false and max(map(len, true + false)) < 110:
                options = [(t.rstrip("."), None) for t in [rng.choice(true)] + false[:3]]
                return asking.choice(rng, rng.choice(("Which statement is true?", "What does the text say?", "Which one follows?", "What is right?")), "statement", options, 0, other_rate=0.02)
        other = rng.choice(self.groups[item["s"], item["t"]])
        claim = other["h"].rstrip(".")
        if draw < 0.45:
            names = rng.choice(FOLLOWS)
            at = ("entailment", "contradiction", "neutral").index(other["l"])
            text = rng.choice(("Does this follow: {}?", "{} - is that so?", "Statement: {}", "Check the claim: {}")).format(claim)
            soft = [0.05] * 3
            soft[at] = 0.9
            return asking.choice(rng, text, "verdict", [(n, None) for n in names], 0, soft=soft, other_rate=0.0, keep_text=True)
        if other["l"] == "neutral" and rng.random() < 0.6:
            return None
        if rng.random() < 0.45:
            claim = rng.choice(("Is it true that {}?", "Does this follow: {}?", "Does the text say that {}?", "{}, right?", "According to the text: {}", "Can one conclude: {}?", "Is this supported? {}", "Is the statement right: {}?")).format(claim if claim.split()[0] == "I" else claim[:1].lower() + claim[1:])
        elif rng.random() < 0.15:
            turned = {"entailment": 0.06, "contradiction": 0.95, "neutral": 0.65}[other["l"]]
            return asking.noul(rng, rng.choice(("It is not true that {}", "Is it wrong that {}?", "Does the text contradict this: {}?")).format(claim[:1].lower() + claim[1:]), turned, keep_text=True)
        return asking.noul(rng, claim, {"entailment": 0.94, "contradiction": 0.05, "neutral": 0.35}[other["l"]], keep_text=True)

    def harm(self, rng, item, who):
        hate, rude, fine = (c / sum(item["c"]) for c in item["c"])
        draw = rng.random()
        if draw < 0.4:
            names = rng.choice(HARM)
            return asking.choice(rng, rng.choice(("Moderation", "How should the post be labelled?", "What kind of post is it?", "Label", "Is the post acceptable?")), "label", [(n, None) for n in names], 0, soft=[fine, rude, hate], other_rate=0.0)
        if draw < 0.85:
            text, p = rng.choice((("Is the post (offensive|rude|vulgar)?", hate + rude), ("Is it (hate speech|hateful)?", hate), ("Is the post (harmless|acceptable|polite)?", fine), ("Does it contain (bad|foul|offensive) language?", hate + rude),
                                  ("Should a moderator look at it?", hate + 0.6 * rude), ("offensive", hate + rude)))
            return asking.noul(rng, banks.phrase(rng, banks.compile_phrase(text)), min(0.97, max(0.03, p)))
        levels = [s.strip() for s in rng.choice(HARM_SCALES).split("<")]
        return asking.score(rng, rng.choice(("How harmful is the post?", "Severity", "How offensive is it?", "Risk")), levels, 0.5 * rude + hate)

    def review(self, rng, item, who):
        rating, draw = item["r"], rng.random()
        place = (rating - 1) / 4
        if draw < 0.2:
            things = {"product": ["electronics", "a device", "product", "phone accessories"], "film": ["film", "movie", "cinema", "a film"], "restaurant": ["restaurant", "food and service", "eating out", "a meal"], "clothes": ["clothes", "fashion", "clothing", "a garment"]}
            wrong = rng.sample([d for d in things if d != item["d"]], rng.choice((1, 2, 3)))
            return asking.choice(rng, rng.choice(("What is reviewed?", "What is it about?", "Thing", "Kind of review", "Subject of the review")), "thing", [(rng.choice(things[d]), None) for d in [item["d"]] + wrong], 0, soft=[0.95] + [0.05 / len(wrong)] * len(wrong))
        text = rng.choice(banks.VALENCE_TEXTS + REVIEW_TEXTS).format(rng.choice(("reviewer", "customer", "writer", "author")))
        if draw < 0.45:
            return asking.score(rng, text, [s.strip() for s in rng.choice(banks.VALENCE_SCALES + REVIEW_SCALES).split("<")], place, spread=0.5)
        if draw < 0.6:
            soft = [0.95, 0.04, 0.01] if rating < 2 else [0.01, 0.04, 0.95] if rating > 4 else [0.75, 0.2, 0.05] if rating == 2 else [0.05, 0.25, 0.7] if rating == 4 else [0.25, 0.55, 0.2]
            options = [(n, None) for n in rng.choice(banks.VALENCE_NAMES)]
            if rating != 3 and rng.random() < 0.4:
                del options[1], soft[1]
            return asking.choice(rng, text, rng.choice(("sentiment", "verdict", "opinion")), options, 0, soft=soft, other_rate=0.0)
        good = {1: 0.03, 2: 0.12, 3: 0.4, 4: 0.88, 5: 0.97}[round(rating)]
        if "y" in item and rng.random() < 0.4:
            claim, good = rng.choice(("Does the reviewer recommend it?", "Would she recommend it to others?", "recommended", "Would the customer buy it again?")), 0.95 if item["y"] else 0.06
        else:
            claim, sign = rng.choice(REVIEW_CLAIMS)
            good = good if sign > 0 else 1 - good
        return asking.noul(rng, claim, good)

    def spam(self, rng, item, who):
        spam, draw = item["l"] == "spam", rng.random()
        if draw < 0.45:
            claim, sign = rng.choice(SPAM_CLAIMS)
            return asking.noul(rng, claim, 0.97 if spam == (sign > 0) else 0.03)
        options = [[("spam", "Unwanted advertising or a trick"), ("advertisement", None), ("junk", None), ("unwanted advertising", None)], [("harmless", None), ("private message", "Somebody writes to a friend"), ("normal message", None), ("personal", None), ("ham", None)]]
        mine, other = options if spam else options[::-1]
        extra = rng.sample(["threat", "invoice", "hate speech", "weather report", "recipe", "contract"], rng.choice((0, 0, 1, 2)))
        return asking.choice(rng, rng.choice(("Label", "What kind of message is it?", "Moderation", "Category", "Filter", "How should the message be filed?")), "label", [rng.choice(mine), rng.choice(other)] + [(e, None) for e in extra], 0)
