"""Records as they come from outside: chat spelling, slips of the finger, missing capitals, labels and ids of other people's making.

All of it keeps the answers. It is applied to some of every maker's records.
"""

from __future__ import annotations

import re

import slots

CHAT = {
    "you": "u", "are": "r", "your": "ur", "you're": "ur", "please": "pls", "thanks": "thx", "thank you": "ty", "because": "cuz", "tomorrow": "tmrw", "people": "ppl", "really": "rly", "with": "w/", "without": "w/o",
    "going to": "gonna", "want to": "wanna", "got to": "gotta", "have to": "hafta", "do not know": "dunno", "don't know": "dunno", "i don't know": "idk", "to be honest": "tbh", "by the way": "btw", "as soon as possible": "asap",
    "what": "wat", "okay": "k", "and": "n", "before": "b4", "something": "smth", "someone": "sb", "about": "abt", "message": "msg", "picture": "pic", "minutes": "mins", "hours": "hrs", "information": "info", "see you": "cya",
    "right now": "rn", "great": "gr8", "them": "em", "kind of": "kinda", "probably": "prolly", "though": "tho", "the": "da", "this": "dis", "my": "ma", "have": "hv", "been": "bin", "just": "jst", "yesterday": "yday", "seriously": "srsly",
    "cannot": "cant", "can't": "cant", "don't": "dont", "does not": "doesnt", "is not": "aint", "isn't": "isnt", "it is": "its", "it's": "its", "i am": "im", "i'm": "im", "did not": "didnt", "won't": "wont", "never": "nvr", "that": "dat",
}
CHAT_RARE = {"the", "this", "my", "that", "and", "what", "have", "been"}
CHAT_PATTERN = re.compile(r"\b(" + "|".join(sorted(map(re.escape, CHAT), key=len, reverse=True)) + r")\b", re.I)
OPENERS = ["hey", "yo", "hi", "so", "ok so", "umm", "hello??", "guys", "well", "lol", "btw", "fyi", "uh", "hi all", "ok", "note:", "hmm", "right,", "@support", "@team", "look,", "pls read:", "fwd:", "update:"]
CLOSERS = ["lol", "thx", "pls", "!!", "...", "??", "tbh", "ok?", "cheers", "asap pls", "haha", "smh", "\U0001f605", "\U0001f64f", ":)", ":/", "...", "lmk", "ty", "x", "k thx bye", "anyway", "fyi", "just saying", "#help", "\U0001f937", "- sent from my phone"]
KEYS = {"a": "s", "s": "a", "e": "r", "r": "e", "t": "y", "y": "t", "i": "o", "o": "i", "n": "m", "m": "n", "u": "i", "l": "k", "k": "l", "d": "f", "f": "d", "c": "v", "v": "c", "b": "n", "g": "h", "h": "g", "p": "o", "w": "e"}


def slip(rng, word: str) -> str:
    """One slip: swapped, dropped, doubled or neighbouring letters."""
    if len(word) < 4 or not word.isalpha():
        return word
    i, kind = rng.randint(1, len(word) - 2), rng.random()
    if kind < 0.35:
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    if kind < 0.6:
        return word[:i] + word[i + 1 :]
    if kind < 0.8:
        return word[:i] + word[i] + word[i:]
    return word[:i] + KEYS.get(word[i], word[i]) + word[i + 1 :]


def chat(rng, text: str) -> str:
    rate = rng.choice((0.3, 0.6, 0.9))

    def short(found):
        word = found[0].lower()
        return CHAT[word] if rng.random() < (0.15 if word in CHAT_RARE else rate) else found[0]

    return CHAT_PATTERN.sub(short, text)


def roughen(rng, text: str) -> str:
    """A text as somebody in a hurry types it."""
    if not 2 < len(text) < 900:
        return text
    if rng.random() < 0.45:
        text = chat(rng, text)
    draw = rng.random()
    if draw < 0.45:
        text = text.lower()
    elif draw < 0.52:
        text = text.upper()
    elif draw < 0.56:
        words = text.split(" ")
        words[rng.randrange(len(words))] = words[rng.randrange(len(words))].upper()
    if rng.random() < 0.4:
        text = " ".join(slip(rng, w) if rng.random() < 0.07 else w for w in text.split(" "))
    draw = rng.random()
    if draw < 0.25:
        text = re.sub(r"[.,;!]+(?=\s|$)", "", text)
    elif draw < 0.35:
        text = re.sub(r"[.!]+(?=\s|$)", lambda _: rng.choice(("!!", "...", "!!!", ".", " -")), text)
    elif draw < 0.4:
        text = text.replace("'", "").replace(", ", ",")
    elif draw < 0.45:
        text = re.sub(r"(?<=[.!?])\s+", "\n", text)
    if rng.random() < 0.15:
        text = rng.choice(OPENERS) + " " + text
    if rng.random() < 0.12:
        text += " " + rng.choice(CLOSERS)
    if rng.random() < 0.05:
        text = re.sub(r"[aeiou](?=\b)", lambda v: v[0] * rng.choice((1, 1, 1, 3)), text)
    return text


def frame(rng, text: str):
    """Where such a text may stand: logs, lists, forms, nested objects."""
    draw = rng.randrange(13)
    if draw == 0:
        return f"[{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}] {rng.choice(('INFO', 'WARN', 'note', 'inbox', 'chat', slots.name(rng)))}: {text}"
    if draw == 1:
        return f"- {text}"
    if draw == 2:
        return "Notes\n" + "\n".join(f"* {s}" for s in re.split(r"(?<=[.!?])\s+", text))
    if draw == 3:
        return {"data": {"items": [{"n": 1, "text": text}]}}
    if draw == 4:
        return {"payload": {"kind": rng.choice(("msg", "post", "mail", "entry")), "body": {"raw": text}}, "v": rng.randint(1, 3)}
    if draw == 5:
        return [text]
    if draw == 6:
        return {"meta": {"lang": "en", "source": rng.choice(("app", "web", "mail", "sms"))}, "input": text}
    if draw == 7:
        return f"<{rng.choice(('msg', 'text', 'mail', 'post'))}>{text}</{rng.choice(('msg', 'text'))}>"
    if draw == 8:
        return f"{rng.choice(('ticket', 'case', 'ref', 'no.'))} {rng.randint(10, 99999)} | {text}"
    if draw == 9:
        return f"> {text}"
    if draw == 10:
        return f"{slots.name(rng)}: {text}"
    if draw == 11:
        return {"thread": [{"by": slots.name(rng), "says": text}], "open": rng.random() < 0.5}
    return f"fwd from {slots.name(rng)}\n---\n{text}\n---"


def deep(rng, value, change):
    """`change` on every text of a state, where keys stay."""
    if isinstance(value, str):
        return change(rng, value) if " " in value else value
    if isinstance(value, list):
        return [deep(rng, v, change) for v in value]
    if isinstance(value, dict):
        return {k: deep(rng, v, change) for k, v in value.items()}
    return value


POLITE = ["Please tell me: {}", "{} Answer yes or no." , "{} Think of the text only.", "Decide this: {}", "Question: {}", "{} (according to the text)", "Hi! {}", "According to the message: {}", "From what is written: {}", "Judge by the text. {}", "Could you check: {}", "{} Use only what is stated.", "Based on the state: {}"]
POLITE_CHOICE = ["Please tell me: {}", "{} Pick one.", "{} Choose the best option.", "Decide this: {}", "Question: {}", "{} Exactly one label.", "Classify. {}", "Select the option that fits: {}", "{} Return a single label.", "Based on the text: {}", "pls label - {}"]
EMOJI = {
    "positive": "\U0001f600", "negative": "\U0001f620", "neutral": "\U0001f610", "happy": "\U0001f60a", "angry": "\U0001f621", "sad": "\U0001f622", "anger": "\U0001f621", "joy": "\U0001f604", "sadness": "\U0001f62d", "fear": "\U0001f628", "love": "\u2764\ufe0f",
    "surprise": "\U0001f632", "good": "\U0001f44d", "bad": "\U0001f44e", "yes": "\u2705", "no": "\u274c", "food": "\U0001f354", "weather": "\u2600\ufe0f", "music": "\U0001f3b5", "travel": "\u2708\ufe0f", "disgust": "\U0001f922", "gratitude": "\U0001f64f",
    "clothing": "\U0001f455", "animals": "\U0001f436", "vehicles": "\U0001f697", "refund": "\U0001f4b8", "unhappy": "\U0001f61e", "great": "\U0001f929", "praise": "\U0001f44f", "urgent": "\U0001f6a8",
}
FULL = ["It is {}", "The answer is {}", "This is {}", "{} (this one)", "I would say {}", "the text is about {}", "label: {}"]


def labels(rng, question: dict, target: dict):
    """Other names for a choice's options: codes with the name as a description, sentences, prefixes, pictures."""
    names = list(question["criteria"])
    draw = rng.random()
    if draw < 0.3:
        codes = rng.choice((list("ABCDEFGHIJKLMNOP"), list("abcdefghijklmnop"), [str(i) for i in range(1, 17)], [f"opt{i}" for i in range(1, 17)], [f"L{i}" for i in range(16)], [f"c_{i:02d}" for i in range(1, 17)], ["alpha", "beta", "gamma", "delta", "eps", "zeta", "eta", "theta"]))[: len(names)]
        if len(codes) < len(names):
            return question, target
        rng.shuffle(codes)
        new = dict(zip(names, codes))
        described = {new[n]: n.replace("_", " ") if question["criteria"][n] is None or rng.random() < 0.6 else question["criteria"][n] for n in names}
    elif draw < 0.5:
        shape = rng.choice(FULL)
        new = {n: shape.format(n.replace("_", " ")) for n in names}
        described = {new[n]: question["criteria"][n] for n in names}
    elif draw < 0.7:
        shape = rng.choice(("{}".upper, None, "is_{}", "cat:{}", "{}?", "{}.", "[{}]", "#{}", "type/{}", "LBL_{}", "\"{}\""))
        fit = (lambda n: n.upper().replace(" ", "_")) if not isinstance(shape, str) else (lambda n: shape.format(n.replace(" ", "_") if "_" in shape or "/" in shape else n))
        new = {n: fit(n) for n in names}
        described = {new[n]: question["criteria"][n] for n in names}
    elif draw < 0.85:
        new = {n: (EMOJI[n.lower()] + rng.choice(("", " " + n))) if n.lower() in EMOJI else n for n in names}
        described = {new[n]: n if new[n] in EMOJI.values() and rng.random() < 0.6 else question["criteria"][n] for n in names}
    else:
        new = {n: n.lower() for n in names}
        described = {new[n]: question["criteria"][n] for n in names}
    if len(set(new.values())) < len(names):
        return question, target
    keys = list(described)
    rng.shuffle(keys)
    return {**question, "criteria": {k: described[k] for k in keys}}, {new[n]: p for n, p in target.items()}


def asked(rng, question: dict, target, strong: bool):
    """A question in other people's manner; the answer stays."""
    question = dict(question)
    text = question.get("instructions")
    if text and rng.random() < (0.35 if strong else 0.06):
        text = rng.choice(POLITE if question["type"] == "noul" else POLITE_CHOICE).format(text)
    if text and strong and rng.random() < 0.4:
        text = text.lower().rstrip("?.") if rng.random() < 0.6 else roughen(rng, text)
    if text:
        question["instructions"] = text
    if question["type"] == "choice" and rng.random() < (0.35 if strong else 0.08):
        question, target = labels(rng, question, target)
    return question, target
