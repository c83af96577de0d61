"""Questions about texts that people wrote questions about: passages, captions, dialogues, sentences with and without sense (a part of corpora.People)."""

from __future__ import annotations


import asking

NO_ANSWER = ["none of these", "none of the above", "not stated", "something else", "cannot tell", "the text does not say", "other"]
UNKNOWN = ["unknown", "cannot tell", "not stated", "not enough information", "undetermined", "the text does not say", "unclear", "nobody knows"]
YES_NO = [("yes", "no", "unknown"), ("true", "false", "cannot tell"), ("yes", "no", "not stated"), ("correct", "incorrect", "not enough information"), ("right", "wrong", "unclear"), ("supported", "contradicted", "not mentioned")]
ANSWERED = ["Does the text answer this question: {}", "Can one answer it from the text: {}", "Is the answer to this in the text? {}", "Answerable: {}", "Does the passage tell: {}", "The text says enough to answer: {}", "Would the sentence do as an answer to: {}"]
IS_ANSWER = ["{q} {a} - is that right?", "Question: {q} Answer: {a}. Is the answer correct?", "Is \"{a}\" the answer to \"{q}\"?", "{q} - {a}", "Would \"{a}\" be a good answer to: {q}", "Right answer? {q} {a}", "Somebody asks: {q} Is it right to say: {a}?"]
WHICH_QUESTION = ["Which question does the text answer?", "What was asked?", "Question that fits the text", "Which question can be answered with it?"]
SENSE = [("Does it make sense?", 1), ("Is the sentence absurd?", -1), ("Could that really happen?", 1), ("Is it nonsense?", -1), ("makes sense", 1), ("Is this plausible?", 1), ("Is it against common sense?", -1), ("The statement is sensible", 1), ("Is something wrong with the statement?", -1),
         ("Would a sensible person say so?", 1), ("plausible", 1), ("Is that impossible or silly?", -1), ("One can believe it", 1)]
SENSE_NAMES = [("sensible", "nonsense"), ("plausible", "absurd"), ("makes sense", "does not make sense"), ("normal", "strange"), ("possible", "impossible or silly"), ("fine", "wrong")]
SENSE_SCALES = ["absurd < odd < normal", "impossible < unlikely < plausible", "nonsense < sensible", "does not make sense < makes some sense < makes sense"]
WHICH_SENSE = ["Which sentence makes sense?", "Which one is plausible?", "Pick the sensible statement.", "Which of the two could be true?"]
WHICH_NONSENSE = ["Which sentence makes no sense?", "Which one is absurd?", "Find the silly statement.", "Which of the two cannot be true?"]
WHY = ["Why does the statement make no sense?", "What is wrong with it?", "What speaks against it?", "Which reason shows that it is wrong?", "Objection"]
BAIT = [("Is it clickbait?", 1), ("Is the headline meant to make people click?", 1), ("Is it a headline of serious news?", -1), ("clickbait", 1), ("Does the headline report news soberly?", -1), ("Could it stand in a serious newspaper?", -1), ("Does it lure readers?", 1), ("The headline is sensational or chatty", 1),
        ("news", -1), ("Is it more entertainment than news?", 1), ("The headline reports an event", -1)]
BAIT_NAMES = [("clickbait", "news"), ("bait", "serious news"), ("entertainment", "news report"), ("lures readers", "informs"), ("lifestyle or quiz", "news agency"), ("tabloid", "serious")]
TOXIC = [("Is the comment toxic?", 1), ("Is it rude or insulting?", 1), ("Is it civil?", -1), ("toxic", 1), ("Should a moderator remove it?", 1), ("Is the tone acceptable?", -1), ("Does the writer insult somebody?", 1), ("Is the comment harmless?", -1), ("needs moderation", 1), ("abusive", 1), ("The comment is friendly or neutral", -1)]
TOXIC_NAMES = [("toxic", "fine"), ("rude", "civil"), ("abusive", "acceptable"), ("remove", "keep"), ("insulting", "harmless"), ("flag", "approve")]
WELL = [("Is the question well formed?", 1), ("Is it a proper question?", 1), ("Are there mistakes in the wording?", -1), ("Is the spelling and grammar right?", 1), ("well_formed", 1), ("Does the wording need a correction?", -1), ("Is it good English?", 1), ("grammatical", 1)]
WELL_SCALES = ["garbled < understandable < well written", "bad < fair < good", "wrong < flawed < right", "poor grammar < some mistakes < no mistakes", "0 < 1 < 2 < 3 < 4"]
WELL_NAMES = [("well formed", "faulty"), ("correct", "has mistakes"), ("proper question", "broken question"), ("good", "needs editing")]


# what somebody does with a turn: names, claims, acts too near to serve as its opposite
ACTS = {
    "AFFIRM": ("agrees, says yes, confirmation, accepts", "Does the {who} agree?; The {who} says yes; Is it confirmed?; Does the {who} confirm it?; Is the {who} fine with the suggestion?", "SELECT AFFIRM_INTENT THANK_YOU GOODBYE"),
    "NEGATE": ("refuses, says no, disagreement, rejection", "Does the {who} say no?; Is something wrong with what was suggested?; The {who} rejects it; Does the {who} disagree?", "NEGATE_INTENT REQUEST_ALTS INFORM GOODBYE THANK_YOU"),
    "THANK_YOU": ("thanks, gratitude, says thank you", "Does the {who} say thanks?; The {who} is grateful; Is there a word of thanks in the last message?", "GOODBYE NEGATE AFFIRM SELECT NEGATE_INTENT"),
    "GOODBYE": ("goodbye, farewell, end of the conversation", "Does the conversation end here?; Is it a farewell?; The conversation is over", "THANK_YOU NEGATE NEGATE_INTENT"),
    "REQUEST": ("asks for a detail, question, request for information", "Does the {who} ask for a detail?; Is there a question in the last message?; Does the {who} want to know something?; Is an answer expected?", "REQUEST_ALTS INFORM_INTENT OFFER CONFIRM REQ_MORE OFFER_INTENT"),
    "REQUEST_ALTS": ("asks for something else, wants alternatives, other suggestions", "Does the {who} want other suggestions?; Is the {who} looking for an alternative?; The {who} would like to hear of something else", "REQUEST NEGATE INFORM INFORM_INTENT"),
    "SELECT": ("chooses, accepts the offer, picks the suggestion", "Does the {who} accept what was offered?; Has the {who} made a choice?; The {who} likes the suggestion", "AFFIRM AFFIRM_INTENT INFORM THANK_YOU INFORM_INTENT REQUEST"),
    "INFORM_INTENT": ("states a new wish, names a task, new request", "Does the {who} bring up a new task?; Is it a new request?; The {who} wants something done", "INFORM REQUEST SELECT AFFIRM_INTENT REQUEST_ALTS"),
    "NEGATE_INTENT": ("declines, does not want it done, turns the offer down", "Does the {who} turn the offer down?; The {who} declines; Does the {who} leave it at that?", "NEGATE THANK_YOU GOODBYE REQUEST_ALTS"),
    "INFORM": ("gives details, states facts, information", "Does the {who} give details?; Is information given?; The {who} states details", "INFORM_INTENT OFFER CONFIRM SELECT REQUEST_ALTS INFORM_COUNT NOTIFY_SUCCESS NEGATE"),
    "OFFER": ("makes a suggestion, offers something, proposal", "Does the {who} suggest something?; Is an offer made?; The {who} proposes something", "INFORM INFORM_COUNT OFFER_INTENT CONFIRM"),
    "CONFIRM": ("asks for confirmation, checks the details, reads back the details", "Does the {who} ask whether the details are right?; Are details read back?; The {who} wants a confirmation", "REQUEST INFORM OFFER OFFER_INTENT"),
    "NOTIFY_SUCCESS": ("reports success, says that it is done, success", "Did it work?; Has the task been done?; Is success reported?; The {who} says that it is done", "INFORM GOODBYE"),
    "NOTIFY_FAILURE": ("reports a failure, says that it did not work, failure", "Did it fail?; Is a failure reported?; The {who} says that it did not work", "NEGATE INFORM OFFER"),
    "REQ_MORE": ("offers further help, asks whether there is more to do, anything else", "Does the {who} ask whether there is anything else?; Is further help offered?", "REQUEST OFFER_INTENT CONFIRM"),
    "OFFER_INTENT": ("offers to do it, asks whether to go ahead, offers a service", "Does the {who} offer to do something?; Does the {who} ask whether to go ahead?", "OFFER REQUEST CONFIRM REQ_MORE"),
}
USER_ACTS = ("AFFIRM", "NEGATE", "THANK_YOU", "GOODBYE", "REQUEST", "REQUEST_ALTS", "SELECT", "INFORM_INTENT", "NEGATE_INTENT", "INFORM")
AGENT_ACTS = ("GOODBYE", "REQUEST", "INFORM", "OFFER", "CONFIRM", "NOTIFY_SUCCESS", "NOTIFY_FAILURE", "REQ_MORE", "OFFER_INTENT")
DOES = ["What does the {} do in the last message?", "What is the last message?", "Kind of the last message", "dialogue act", "What happens in the last message?", "Last turn", "How does the {} react?"]
SPEAKERS = [("user", "assistant"), ("customer", "agent"), ("User", "Bot"), ("A", "B"), ("Customer", "Support"), ("client", "clerk"), ("caller", "operator")]


def yes(question: str) -> str:
    question = question.strip()
    return question[:1].upper() + question[1:].rstrip("?. ") + "?"


class Reading:
    """Needs of the class it is mixed into: items, groups (by kind and text), labels."""

    def both(self, rng, item, texts, names, question, hint, p, choice_share=0.35, scales=None, place=None):
        """A property that is there or not, as a claim, as a choice of two, on a scale."""
        draw = rng.random()
        if scales and draw < 0.2:
            return asking.score(rng, rng.choice(question), [s.strip() for s in rng.choice(scales).split("<")], p if place is None else place)
        if draw < choice_share + 0.2 * bool(scales):
            pair = rng.choice(names)
            return asking.choice(rng, rng.choice(question), hint, [(n, None) for n in pair], 0, soft=[p, 1 - p], other_rate=0.03)
        claim, sign = rng.choice(texts)
        return asking.noul(rng, claim, p if sign > 0 else 1 - p)

    def headline(self, rng, item, who):
        return self.both(rng, item, BAIT, BAIT_NAMES, ["What kind of headline is it?", "Label", "Sort the headline.", "Category"], "label", 0.95 if item["y"] else 0.05)

    def toxicity(self, rng, item, who):
        return self.both(rng, item, TOXIC, TOXIC_NAMES, ["Moderation", "Label", "How is the comment?", "Decision", "Tone of the comment"], "label", 0.93 if item["y"] else 0.05)

    def well_formed(self, rng, item, who):
        p = min(0.96, max(0.04, item["y"]))
        return self.both(rng, item, WELL, WELL_NAMES, ["How well is the question written?", "Wording", "Quality of the wording", "Grammar"], "wording", p, scales=WELL_SCALES, place=item["y"])

    def answerable(self, rng, item, who):
        fits = item["l"] == "entailment"
        if fits and rng.random() < 0.45:
            others = [i["h"] for i in (rng.choice(self.items["qnli"]) for _ in range(rng.choice((1, 2, 3)))) if i["t"] != item["t"]]
            if others:
                return asking.choice(rng, rng.choice(WHICH_QUESTION), "question", [(q, None) for q in [item["h"]] + others], 0, other_rate=0.05)
        return asking.noul(rng, rng.choice(ANSWERED).format(item["h"]), 0.94 if fits else 0.08, keep_text=True)

    def multiple(self, rng, item, who):
        """A question with several answers; one of them may be that none fits or that nobody can tell."""
        item = rng.choice(self.groups[item["s"], item["t"]])
        answers = [a.rstrip(".") for a in item["a"]]
        at = item["u"] if "u" in item else next((i for i, a in enumerate(answers) if a.lower().startswith("none of the above")), None)
        if at is not None:
            answers[at] = rng.choice(UNKNOWN if "u" in item else NO_ANSWER)
        draw = rng.random()
        if draw < 0.6:
            slip = 0.04 if "u" in item else 0.1
            keep = [i for i in range(len(answers)) if i == item["y"] or rng.random() < 0.8]
            if len(keep) < 2:
                return None
            return asking.choice(rng, item["h"], "answer", [(answers[i], None) for i in keep], 0, soft=[1 - slip if i == item["y"] else slip / (len(keep) - 1) for i in keep], other_rate=0.0, keep_text=True)
        if at is not None and draw < 0.72:
            return asking.noul(rng, rng.choice(ANSWERED).format(item["h"]), (0.05 if "u" in item else 0.25) if item["y"] == at else 0.93, keep_text=True)
        if item["y"] == at and rng.random() < 0.5:
            return None
        truth = rng.random() < 0.5 and item["y"] != at
        wrong = [i for i in range(len(answers)) if i not in (item["y"], at)]
        answer = answers[item["y"] if truth else rng.choice(wrong)]
        return asking.noul(rng, rng.choice(IS_ANSWER).format(q=item["h"], a=answer), 0.92 if truth else 0.06, keep_text=True)

    def yes_no(self, rng, item, who):
        item = rng.choice(self.groups[item["s"], item["t"]])
        question, draw = yes(item["h"]), rng.random()
        if item["s"] == "conda" and draw < 0.2:
            return asking.noul(rng, rng.choice(ANSWERED).format(question), 0.1 if item["y"] < 0 else 0.93, keep_text=True)
        if item["y"] < 0 or draw < 0.4:
            names = list(rng.choice(YES_NO))
            right = {1: 0, 0: 1, -1: 2}[item["y"]]
            if item["y"] >= 0 and (item["s"] == "boolq" or rng.random() < 0.3):
                names = names[:2]
            soft = [0.9 if i == right else 0.1 / (len(names) - 1) for i in range(len(names))]
            return asking.choice(rng, question, "answer", [(n, None) for n in names], 0, soft=soft, other_rate=0.0, keep_text=True)
        return asking.noul(rng, question, 0.93 if item["y"] else 0.06, keep_text=True)

    def strategy(self, rng, item, who):
        labels = self.labels["campers"]
        mine = [k for k in item["l"] if k in labels]
        wrong = [k for k in labels if k not in mine and not (mine and k == "small-talk")]
        if not mine or rng.random() < 0.6:
            truth = mine and rng.random() < 0.5
            label = labels[rng.choice(mine if truth else wrong)]
            claim = f"Does the {who} {rng.choice(label.wishes)}?" if rng.random() < 0.6 else rng.choice(("Is there {} in the message?", "{}", "One finds this in the message: {}", "The message contains {}")).format(rng.choice(label.names))
            return asking.noul(rng, claim[:1].upper() + claim[1:], 0.9 if truth else 0.07)
        options = [self.option(rng, labels[k], k, who) for k in [rng.choice(mine)] + rng.sample(wrong, min(len(wrong), rng.choice((1, 2, 3, 4))))]
        return asking.choice(rng, rng.choice(("What does the {} do?", "Strategy of the {}", "What is the message for?", "Kind of message", "What is the {} up to?")).format(who), "strategy", options, 0, soft=[0.92] + [0.08 / (len(options) - 1)] * (len(options) - 1))

    # Those that make a state of their own

    def sense(self, rng, item):
        draw, asked = rng.random(), []
        if draw < 0.35:
            good = rng.random() < 0.5
            for _ in range(rng.choice((1, 2, 3))):
                asked.append(self.both(rng, item, SENSE, SENSE_NAMES, ["How is the statement?", "Common sense", "Verdict", "Does it hold up?", "Plausibility"], "verdict", 0.93 if good else 0.06, scales=SENSE_SCALES))
            if not good and rng.random() < 0.5:
                asked.append(self.why(rng, item))
            return item["h" if good else "t"], asked
        if draw < 0.6:
            return item["t"], [self.why(rng, item)] + [asking.noul(rng, *self.signed(rng, 0.06)) for _ in range(rng.choice((0, 1)))]
        first = rng.random() < 0.5  # the sensible one comes first
        pair = [item["h"], item["t"]] if first else [item["t"], item["h"]]
        names = rng.choice((("a", "b"), ("first", "second"), ("1", "2"), ("A", "B"), ("x", "y"), ("statement 1", "statement 2")))
        state = {names[0]: pair[0], names[1]: pair[1]} if rng.random() < 0.6 else f"{names[0]}: {pair[0]} {names[1]}: {pair[1]}"
        for _ in range(rng.choice((1, 2))):
            right = rng.random() < 0.6
            text = rng.choice(WHICH_SENSE if right else WHICH_NONSENSE)
            best = 0 if right == first else 1
            if rng.random() < 0.55:
                asked.append(asking.choice(rng, text, "which", [(n, None) for n in (names[best], names[1 - best])], 0, soft=[0.94, 0.06], other_rate=0.0, keep_text=True))
            elif rng.random() < 0.6:
                asked.append(asking.choice(rng, text, "which", [(p.rstrip("."), None) for p in (pair[best], pair[1 - best])], 0, soft=[0.94, 0.06], other_rate=0.0, keep_text=True))
            else:
                at = rng.randrange(2)
                sensible = (at == 0) == first
                asked.append(asking.noul(rng, rng.choice(("Does {} make sense?", "Is {} plausible?", "{} is the sensible one", "Is {} the one that could be true?")).format(names[at] if len(names[at]) > 2 and names[at] not in ("first", "second") else f"sentence {names[at]}" if len(names[at]) < 3 else f"the {names[at]} sentence"), 0.94 if sensible else 0.06, keep_text=True))
        return state, asked

    def signed(self, rng, p):
        claim, sign = rng.choice(SENSE)
        return claim, p if sign > 0 else 1 - p

    def why(self, rng, item):
        right, wrong = rng.choice(item["a"]), list(item["w"])
        other = rng.choice(self.items["sense"])
        if rng.random() < 0.5 and other is not item:
            wrong.append(rng.choice(other["a"]))
        wrong = rng.sample(wrong, rng.randint(1, len(wrong)))
        return asking.choice(rng, rng.choice(WHY), "reason", [(t.rstrip("."), None) for t in [right] + wrong], 0, soft=[0.92] + [0.08 / len(wrong)] * len(wrong), other_rate=0.0, keep_text=True)

    def dialogue(self, rng, item):
        user, agent = rng.choice(SPEAKERS)
        said = [(user if who == "u" else agent, text) for who, text in item["m"]]
        draw = rng.random()
        if draw < 0.3:
            state = [{"role": "user" if who == "u" else "assistant", "content": text} for who, text in item["m"]]
            state = {"messages": state} if rng.random() < 0.5 else state
        elif draw < 0.4:
            state = {"conversation": [f"{who}: {text}" for who, text in said]}
        else:
            state = rng.choice(("\n", "\n", " ", " / ")).join(f"{who}: {text}" for who, text in said)
        last = "u" if item["m"][-1][0] == "u" else "a"
        who = rng.choice(("user", "customer", "client", "person")) if last == "u" else rng.choice(("assistant", "agent", "bot", "clerk"))
        asked = []
        for _ in range(rng.choice((2, 3, 3, 4))):
            draw = rng.random()
            asked.append(self.act(rng, item, last, who) if draw < 0.5 or not item["x"] else self.said(rng, item))
            if rng.random() < 0.2:
                asked.append(self.done(rng, item))
        return state, [a for a in asked if a]

    def act(self, rng, item, last, who):
        every = USER_ACTS if last == "u" else AGENT_ACTS
        mine = [a for a in item["a"][-1] if a in every]
        if not mine:
            return None
        near = {n for m in mine for n in ACTS[m][2].split()} | set(item["a"][-1])
        far = [a for a in every if a not in near and not any(m in ACTS[a][2].split() for m in mine)]
        if not far:
            return None
        if rng.random() < 0.4:
            names = [rng.choice(ACTS[a][0].split(", ")) for a in [rng.choice(mine)] + rng.sample(far, min(len(far), rng.choice((1, 2, 3, 4))))]
            return asking.choice(rng, rng.choice(DOES).format(who), "act", [(n, None) for n in names], 0, soft=[0.95] + [0.05 / (len(names) - 1)] * (len(names) - 1), other_rate=0.04)
        truth = rng.random() < 0.5
        claim = rng.choice(ACTS[rng.choice(mine if truth else far)][1].split("; ")).format(who=who)
        if "last message" not in claim and len(item["m"]) > 1 and rng.random() < 0.6:
            claim = claim[:-1] + " in the last message?" if claim.endswith("?") else claim + " in the last message"
        return asking.noul(rng, claim, 0.93 if truth else 0.06, keep_text=len(item["m"]) > 1)

    def done(self, rng, item):
        acts = {a for turn in item["a"] for a in turn}
        if "NOTIFY_SUCCESS" in acts and "NOTIFY_FAILURE" in acts:
            return None
        p = 0.95 if "NOTIFY_SUCCESS" in acts else 0.05
        if p < 0.5 and not acts & {"NOTIFY_FAILURE", "CONFIRM", "OFFER", "REQUEST"} or "GOODBYE" in acts and p < 0.5:
            return None
        return asking.noul(rng, rng.choice(("Has the task been carried out?", "Is the request done already?", "The booking or task is completed", "Was something done successfully?", "completed", "Is the matter settled?")), p)

    def said(self, rng, item):
        name, value = rng.choice(item["x"])
        what = name[4:] if name.startswith("The ") else name[:1].lower() + name[1:]
        others = [v for n, v in item["x"] if v != value] + [rng.choice(self.told[name]) for _ in range(4)]
        others = [v for v in dict.fromkeys(others) if v.lower() not in value.lower() and value.lower() not in v.lower()]
        if not others:
            return None
        if rng.random() < 0.4:
            truth = rng.random() < 0.5
            return asking.noul(rng, rng.choice(("Is the {w} {v}?", "The {w} is {v}", "Is {v} the {w}?", "{w}: {v}?")).format(w=what, v=value if truth else others[0]), 0.95 if truth else 0.04, keep_text=True)
        wrong = others[: rng.choice((1, 2, 3, 4))]
        return asking.choice(rng, rng.choice(("What is the {}?", "Which is the {}?", "{}", "Find the {}.")).format(what) if rng.random() < 0.8 else name, "value", [(v, None) for v in [value] + wrong], 0, soft=[0.96] + [0.04 / len(wrong)] * len(wrong), other_rate=0.04, keep_text=True)
