"""Requests of wanted lengths for bench/accuracy.py: states of plain words, questions of every type. The same seed gives the same requests."""

import json
import random
import subprocess

LENGTHS = [150, 220, 346, 500, 750, 1000, 1382, 2000, 2900, 4510, 6200, 8100, 11500, 16000]

PEOPLE = "the customer,a driver,our accountant,the night shift,Marta,the landlord,a new tenant,the supplier,Dr. Okafor,the team lead,a courier,support,the buyer,an auditor,Jonas".split(",")
ACTIONS = "asked about,returned,could not find,paid for,reported,cancelled,signed for,lost,praised,doubted,forwarded,forgot,repaired,refused,counted twice".split(",")
THINGS = "the invoice,two boxes,a blue kettle,the spare key,last month's report,the warranty,a refund,the printer on the third floor,three tickets,an old contract,the delivery note,a cracked screen,the password,his appointment,the refund form".split(",")
ENDS = "on Monday,after lunch,without a word,in the rain,for the second time,before the deadline,by mistake,as agreed,near the station,with some delay,at 7:45,although nobody had asked,twice this week,and left,because of the storm".split(",")
LINKS = "Then,Later,In the end,Meanwhile,However,So,Again,Oddly,As usual,Nobody knows why".split(",")
SUBJECTS = "delivery,billing,tone,urgency,safety,quality,access,staffing,schedule,equipment,privacy,follow_up".split(",")
OPTIONS = "refund,replacement,apology,escalation,no action,call back,inspection,discount,reminder,transfer".split(",")
LEVELS = "not at all,barely,somewhat,clearly,extremely".split(",")


def sentence(pick: random.Random) -> str:
    text = f"{pick.choice(PEOPLE)} {pick.choice(ACTIONS)} {pick.choice(THINGS)} {pick.choice(ENDS)}."
    if pick.random() < 0.3:
        return f"{pick.choice(LINKS)}, {text}"
    if pick.random() < 0.1:
        text = f"{text[:-1]} (no. {pick.randrange(10**6)}, {pick.randrange(1, 900)}.{pick.randrange(100):02d} EUR)."
    return text[0].upper() + text[1:]


def state(pick: random.Random, sentences: int, is_json: bool):
    """Plain text, or a conversation as JSON."""
    lines = [sentence(pick) for _ in range(sentences)]
    if not is_json:
        return " ".join(lines)
    return {"channel": pick.choice(["mail", "phone", "chat"]), "messages": [{"from": pick.choice(["agent", "customer"]), "text": " ".join(lines[i : i + 3])} for i in range(0, len(lines), 3)]}


def question(pick: random.Random) -> dict:
    kind = pick.choice(["noul", "choice", "score"])
    if kind == "noul":
        return {"type": kind, "instructions": f"Did {pick.choice(PEOPLE)} mention {pick.choice(THINGS)}?"}
    if kind == "choice":
        names = pick.sample(OPTIONS, pick.randrange(2, 7))
        return {"type": kind, "instructions": f"What does {pick.choice(PEOPLE)} want?", "criteria": {n: f"{n} for {pick.choice(THINGS)}" if pick.random() < 0.5 else None for n in names}}
    return {"type": kind, "instructions": f"How much does {pick.choice(THINGS)} matter?", "criteria": LEVELS[: pick.randrange(3, 6)]}


def questions(pick: random.Random, tokens: int) -> dict:
    """Few for a short request, up to ten for a long one."""
    if tokens < 200:  # a prompt without any question takes about half of that
        return {"ok": {"type": "noul"}}
    count = 2 if tokens < 400 else min(10, 2 + tokens // 700)
    return {f"{name}{i}": question(pick) for i, name in enumerate(pick.choices(SUBJECTS, k=count))}


def encode(tool: str, snapshot: str, requests: list) -> list:
    """Token ids and spans, by clef-tool: both sides see the same."""
    text = "".join(json.dumps(r) + "\n" for r in requests)
    out = subprocess.run([tool, "encode", "-m", snapshot, "--max-length", str(1 << 20)], input=text, capture_output=True, text=True, check=True).stdout
    records = [json.loads(line) for line in out.splitlines()]
    for record in records:
        if "error" in record:
            raise SystemExit(f"a request that clef-tool refuses: {record['error']}")
    return records


def make(tool: str, snapshot: str, lengths: list, seed: int):
    """Requests and their encoded records, about as long as wanted; what a request has beside its state can be longer than a short wish."""
    asked = [questions(random.Random(f"{seed}/{i}/questions"), n) for i, n in enumerate(lengths)]

    def requests(counts):
        return [{"model": "clef", "state": state(random.Random(f"{seed}/{i}/state"), n, i % 3 == 2), "questions": asked[i]} for i, n in enumerate(counts)]

    counts = [0] * len(lengths)
    fixed = [len(r["input_ids"]) for r in encode(tool, snapshot, requests(counts))]
    counts = [max(1, (n - f) // 16) for n, f in zip(lengths, fixed)]
    for _ in range(3):  # tokens a sentence differ by tokenizer
        found = [len(r["input_ids"]) for r in encode(tool, snapshot, requests(counts))]
        counts = [max(0, int(c * max(0, n - f) / max(1, got - f))) for c, n, f, got in zip(counts, lengths, fixed, found)]
    made = requests(counts)
    return made, encode(tool, snapshot, made)
