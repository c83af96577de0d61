"""Texts and labels of public datasets (README.md names them and their licences), from clones of their repositories to one packed file.

    python3 extract_corpora.py CLONES corpora.jsonl.xz

CLONES holds a folder `owner+name/repo` for each. A line of the result is {"s": dataset, "t": text, ...}.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

SLOT = re.compile(r"\[\s*([a-z_]+)\s*:\s*([^\]]+?)\s*\]")
NLU = "CrossValidation/autoGeneFromRealAnno/autoGene_2018_03_22-13_01_25_169/CrossValidation/KFold_1/"


class Clone:
    def __init__(self, folder: Path):
        self.git = ["git", "-C", str(folder / ".git" if (folder / ".git").exists() else folder)]

    def names(self) -> list[str]:
        return subprocess.run(self.git + ["ls-tree", "-r", "--name-only", "HEAD"], capture_output=True, text=True, check=True).stdout.split("\n")

    def bytes(self, path: str) -> bytes:
        return subprocess.run(self.git + ["show", f"HEAD:{path}"], capture_output=True, check=True).stdout

    def text(self, path: str) -> str:
        return self.bytes(path).decode("utf-8", "replace")

    def there(self, names) -> list[str]:
        """Those that the clone holds: of some, the largest files are left out."""
        names = list(names)
        asked = subprocess.run(self.git + ["cat-file", "--batch-check"], input="".join(f"HEAD:{n}\n" for n in names), capture_output=True, text=True, check=True)
        return [n for n, line in zip(names, asked.stdout.split("\n")) if not line.endswith("missing")]


def tidy(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def clinc(clone):
    data = json.loads(clone.text("data/data_full.json"))
    for part in data.values():
        for text, label in part:
            yield {"s": "clinc", "t": tidy(text), "l": label}


def banking(clone):
    for part in ("train", "test"):
        for text, label in list(csv.reader(io.StringIO(clone.text(f"banking_data/{part}.csv"))))[1:]:
            yield {"s": "banking", "t": tidy(text), "l": label.strip("?").lower()}


def nlupp(clone):
    for domain in ("banking", "hotels"):
        for fold in range(20):
            for item in json.loads(clone.text(f"nlupp/data/{domain}/fold{fold}.json")):
                if item.get("intents"):
                    yield {"s": "nlupp", "t": tidy(item["text"]), "l": item["intents"], "d": domain, "v": [(n, s["text"]) for n, s in item.get("slots", {}).items()]}


def nlu(clone):
    for name in clone.names():
        if name.startswith(NLU + "trainset/") and name.endswith(".csv"):
            for row in csv.DictReader(io.StringIO(clone.text(name)), delimiter=";"):
                marked = row["answer_annotation"] or ""
                yield {"s": "nlu", "t": tidy(SLOT.sub(r"\2", marked)), "l": f"{row['scenario']}_{row['intent']}", "v": [(n, tidy(v)) for n, v in SLOT.findall(marked)]}
        if name.startswith(NLU + "testset/annotated/") and name.endswith(".json"):
            for item in json.loads(clone.text(name))["test_data_annotation"]:
                yield {"s": "nlu", "t": tidy(item["text"]), "l": item["intent"], "v": [(e["entity"], e["value"]) for e in item["entities"]]}


def snips(clone):
    for intent in "AddToPlaylist BookRestaurant GetWeather PlayMusic RateBook SearchCreativeWork SearchScreeningEvent".split():
        data = json.loads(clone.text(f"2017-06-custom-intent-engines/{intent}/train_{intent}_full.json"))
        for item in data[intent]:
            parts = item["data"]
            yield {"s": "snips", "t": tidy("".join(p["text"] for p in parts)), "l": intent, "v": [(p["entity"], tidy(p["text"])) for p in parts if "entity" in p]}


EMOTIONS = """admiration amusement anger annoyance approval caring confusion curiosity desire disappointment disapproval disgust embarrassment
excitement fear gratitude grief joy love nervousness optimism pride realization relief remorse sadness surprise neutral""".split()


def emotions(clone):
    for part in ("train", "dev", "test"):
        for line in clone.text(f"data/original/{part}.tsv").split("\n"):
            fields = line.split("\t")
            if len(fields) == 3 and len(fields[0]) < 300:
                text = tidy(fields[0].replace("[NAME]", "Sam").replace("[RELIGION]", "church"))
                yield {"s": "emotions", "t": text, "l": [EMOTIONS[int(i)] for i in fields[1].split(",")]}


def inference(clone):
    for row in csv.DictReader(io.StringIO(clone.text("nli_datasets/mnli/dev.csv"))):
        if len(row["premise"]) < 400:
            yield {"s": "mnli", "t": tidy(row["premise"]), "h": tidy(row["hypothesis"]), "l": row["label"]}


def tweets(clone):
    for row in csv.DictReader(io.StringIO(clone.text("data/labeled_data.csv"))):
        text = re.sub(r"https?:\S+|&#\d+;|\bRT\b|^[!\" ]+", " ", row["tweet"]).replace("&amp;", "&").replace("&gt;", ">").replace("&lt;", "<")
        text = tidy(re.sub(r"@\w+:?", "@user", text))
        if len(text) > 15:
            yield {"s": "tweets", "t": text, "c": [int(row["hate_speech"]), int(row["offensive_language"]), int(row["neither"])]}


def sentences(clone):
    for thing in ("amazon_cells", "imdb", "yelp"):
        for line in clone.text(f"{thing}_labelled.txt").split("\n"):
            text, _, label = line.rpartition("\t")
            if text and len(text) < 500:
                yield {"s": "reviews", "t": tidy(text), "d": {"amazon_cells": "product", "imdb": "film", "yelp": "restaurant"}[thing], "r": 4.6 if label.strip() == "1" else 1.4}


def clothes(clone):
    for row in csv.DictReader(io.StringIO(clone.text("Womens Clothing E-Commerce Reviews.csv"))):
        text = row["Review Text"] or ""
        if 20 < len(text) < 700:
            yield {"s": "reviews", "t": tidy(text), "d": "clothes", "r": int(row["Rating"]), "y": int(row["Recommended IND"])}


def short_messages(clone):
    for line in clone.text("SMSSpamCollection").split("\n"):
        label, _, text = line.partition("\t")
        if text and len(text) < 300:
            yield {"s": "sms", "t": tidy(text.replace("&lt;#&gt;", "5").replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")), "l": label}


def spread(items, most: int):
    """At most so many of them, evenly."""
    items = list(items)
    return items if len(items) <= most else [items[i * len(items) // most] for i in range(most)]


def written(text: str) -> str:
    """Text whose words and marks had been set apart, as people write it."""
    text = re.sub(r" (n't|'(?:s|m|re|ve|ll|d)\b)", r"\1", tidy(text))
    return re.sub(r" ([.,!?;:])", r"\1", re.sub(r"\b(can|do|does|did|was|were|is|are|would|could|should|has|have|had|ca|wo) nt\b", r"\1n't", text))


def captions(clone):
    for row in csv.DictReader(io.StringIO(clone.text("nli_datasets/snli/dev.csv"))):
        yield {"s": "snli", "t": tidy(row["premise"]), "h": tidy(row["hypothesis"]), "l": row["label"]}


def answering(clone):
    for row in csv.DictReader(io.StringIO(clone.text("nli_datasets/qnli/dev.csv"))):
        if len(row["hypothesis"]) < 450:
            yield {"s": "qnli", "t": tidy(row["hypothesis"]), "h": tidy(row["premise"]), "l": row["label"]}


def reading(clone):
    for row in csv.DictReader(io.StringIO(clone.text("data/valid.csv"))):
        if len(row["context"]) < 750:
            yield {"s": "cosmos", "t": written(row["context"]), "h": written(row["question"]), "a": [written(row[f"answer{i}"]) for i in range(4)], "y": int(row["label"])}


def yes_or_no(clone):
    for line in clone.text("data/dev.jsonl").split("\n"):
        if line:
            item = json.loads(line)
            if len(item["passage"]) < 800:
                yield {"s": "boolq", "t": tidy(item["passage"]), "h": tidy(item["question"]), "y": int(item["answer"])}


def negated(clone):
    for name in ["data/condaqa_dev.json"] + [f"data/few-shot/test_splits/conda_fewshot_test_{i}.json" for i in range(1, 6)]:
        for line in clone.text(name).split("\n"):
            if line:
                item = json.loads(line)
                answer = {"YES": 1, "NO": 0, "DON'T KNOW": -1}.get(item["label"])
                if answer is not None and len(item["sentence1"]) < 800:
                    yield {"s": "conda", "t": tidy(item["sentence1"]), "h": tidy(item["sentence2"]), "y": answer}


def who_of_two(clone):
    for name in clone.there(n for n in clone.names() if n.startswith("data/") and n.endswith(".jsonl")):
        for item in spread([json.loads(l) for l in clone.text(name).split("\n") if l], 450):
            unknown = next(i for i in range(3) if item["answer_info"][f"ans{i}"][1] == "unknown")
            yield {"s": "bbq", "t": tidy(item["context"]), "h": item["question"], "a": [item[f"ans{i}"] for i in range(3)], "y": item["label"], "u": unknown}


def sensible(clone):
    for row in csv.DictReader(io.StringIO(clone.text("ALL data/train.csv"))):
        right = [tidy(row[k]) for k in ("Right Reason1", "Right Reason2", "Right Reason3") if row[k]]
        if row["Correct Statement"] and right:
            yield {"s": "sense", "t": tidy(row["Incorrect Statement"]), "h": tidy(row["Correct Statement"]), "a": right, "w": [tidy(row["Confusing Reason1"]), tidy(row["Confusing Reason2"])]}


def headlines(clone):
    for name, label in (("clickbait", 1), ("non_clickbait", 0)):
        lines = gzip.decompress(clone.bytes(f"dataset/{name}_data.gz")).decode("utf-8", "replace").split("\n")
        for line in spread([tidy(l) for l in lines if l.strip()], 6000):
            yield {"s": "headlines", "t": line, "y": label}


def toxic(clone):
    for row in csv.DictReader(io.StringIO(clone.text("toxicity_en.csv"))):
        if len(row["text"]) < 400:
            yield {"s": "toxic", "t": tidy(row["text"]), "y": int(row["is_toxic"] == "Toxic")}


def asked_well(clone):
    for part in ("train", "dev", "test"):
        for line in spread(clone.text(f"{part}.tsv").split("\n"), 4000):
            text, _, share = line.partition("\t")
            if share.strip():
                yield {"s": "wellformed", "t": tidy(text).replace(" ?", "?"), "y": float(share)}


def service(clone):
    for part, name in (("train", "Training"), ("dev", "Validation"), ("test", "Testing")):
        for row in csv.DictReader(io.StringIO(clone.text(f"data/{part}/Bitext_Sample_Customer_Service_{name}_Dataset.csv"))):
            yield {"s": "bitext", "t": tidy(row["utterance"]), "l": row["intent"]}


NO_INTENT = {"contentonly", "confirmation", "outofdomain", "rejection", "orderbreakfastintent", "orderchecks", "changeorder"}


def customers(clone):
    found = defaultdict(list)
    for domain in "airline fastfood finance insurance media software".split():
        for line in clone.text(f"data/paper_splits/splits_annotated_at_turn_level/{domain}/train.tsv").split("\n")[1:]:
            fields = line.split("\t")
            if len(fields) == 6 and fields[5] not in NO_INTENT and fields[5].isalpha() and 3 < len(fields[3].split()) < 60:
                found[fields[5]].append({"s": "customers", "t": tidy(fields[3]), "l": fields[5]})
    for items in found.values():
        if len(items) > 15:
            yield from spread(items, 450)


SAME = {"SearchOnewayFlight": "SearchFlight", "SearchRoundtripFlights": "SearchFlight", "ReserveOnewayFlight": "ReserveFlight", "ReserveRoundtripFlights": "ReserveFlight", "LookupMusic": "LookupSong", "PlayMedia": "PlaySong",
        "FindHomeByArea": "FindApartment", "MakePayment": "TransferMoney", "SearchHouse": "SearchHotel", "BookHouse": "ReserveHotel", "RentMovie": "PlayMovie"}
SIGNS = """Restaurant restaurant|table|\\beat|\\bdin|lunch|food;Flight flight|\\bfly|airline|plane;GetRide cab|taxi|ride;Car \\bcars?\\b|rental|vehicle;Bus \\bbus;Train train;Alarm alarm;therapist therap|psych|counsel;hair hair|salon|stylist;
dentist dent|teeth|tooth;doctor doctor|dermat|physician|specialist|gynec|ophthal;Weather weather|rain|forecast|temperature|hot|cold;FindApartment apartment|home|house|property|live;ScheduleVisit visit|see|look;TransferMoney transfer|send|pay|money;
CheckBalance balance|account|money;Attractions attraction|visit|see|sight|tour|things to do|places;Movie movie|film;Hotel hotel|room|house|stay|accommodation;Song song|music|listen|track|tune|play;Event event|concert|game|ticket|sport|perform|calendar|schedule;
AvailableTime free|available|calendar|schedule;ShareLocation location|where;RequestPayment request|ask"""
SIGNS = [tuple(p.strip().split(" ", 1)) for p in SIGNS.replace("\n", "").split(";")]  # a request names its subject, or its label cannot be told from it
HEALERS = {"Services_1": "hair", "Services_2": "dentist", "Services_3": "doctor", "Services_4": "therapist"}


def dialogues(clone):
    """Requests by intent, and the last turns of dialogues with their acts and what was said of each slot."""
    slots = {}
    for part in ("train", "dev", "test"):
        for s in json.loads(clone.text(f"{part}/schema.json")):
            for slot in s["slots"]:
                slots[s["service_name"], slot["name"]] = slot["description"]
    rng, intents = random.Random(7), defaultdict(list)
    for name in clone.there(n for n in clone.names() if re.match(r"(train|dev|test)/dialogues_", n)):
        for d in json.loads(clone.text(name)):
            turns = d["turns"]
            for at, turn in enumerate(turns):
                for frame in turn["frames"]:
                    intent = [a["values"][0] for a in frame["actions"] if a["act"] == "INFORM_INTENT"]
                    if intent and len(turn["utterance"]) > 25:
                        healer = HEALERS.get(frame["service"])
                        key = SAME.get(intent[0], intent[0]) + (f"_{healer}" if healer else "")
                        if all(re.search(sign, turn["utterance"], re.I) for part, sign in SIGNS if part in key):
                            intents[key].append({"s": "sgd", "t": tidy(turn["utterance"]), "l": key})
            end = rng.randrange(2, len(turns))
            window = turns[max(0, end - rng.choice((1, 2, 3, 4))) : end + 1]
            text = " ".join(t["utterance"] for t in window)
            values = {}
            for t in window:
                for frame in t["frames"]:
                    for slot, given in frame.get("state", {}).get("slot_values", {}).items():
                        said = [v for v in given if re.search(rf"\b{re.escape(v)}\b", text)]
                        if said and not said[0].isdigit() and said[0] not in ("True", "False", "dontcare"):
                            values[slots[frame["service"], slot]] = said[0]
            acts = [sorted({a["act"] for f in t["frames"] for a in f["actions"]}) for t in window]
            if len(text) < 700:
                yield {"s": "dialogues", "t": tidy(text), "m": [["u" if t["speaker"] == "USER" else "a", tidy(t["utterance"])] for t in window], "a": acts, "x": list(values.items())}
    for items in intents.values():
        yield from spread(items, 350)


def campers(clone):
    for part in ("train", "test", "valid"):
        for d in json.loads(clone.text(f"data/split/casino_{part}.json")):
            last = ""
            for text, labels in d["annotations"]:
                if len(text) > 20 and len(text) < 350:
                    yield {"s": "campers", "t": tidy(text), "l": labels.split(","), "b": tidy(last)[:200]}
                last = text


BOOKED = {"time": "Time of the booking", "date": "Date of the booking", "people": "Number of guests", "first_name": "First name of the guest", "last_name": "Last name of the guest"}


def bookings(clone):
    for part in ("train_0", "train_1"):
        for item in json.loads(clone.text(f"span_extraction/restaurant8k/{part}.json")):
            text, found = item["userInput"]["text"], []
            for label in item.get("labels", ()):
                at = label["valueSpan"]
                found.append((BOOKED[label["slot"]], text[at.get("startIndex", 0) : at["endIndex"]]))
            if found and len(text) > 12:
                yield {"s": "dialogues", "t": tidy(text), "m": [["u", tidy(text)]], "a": [[]], "x": found}


def counsel(clone):
    seen = {}
    for row in csv.DictReader(io.StringIO(clone.text("data/20200325_counsel_chat.csv"))):
        text = tidy(row["questionTitle"] + " " + row["questionText"])
        if row["questionID"] not in seen and len(text) < 700:
            seen[row["questionID"]] = {"s": "counsel", "t": text, "l": row["topic"]}
    many = Counter(i["l"] for i in seen.values())
    yield from (i for i in seen.values() if many[i["l"]] > 7 and i["l"] not in ("counseling-fundamentals", "social-relationships"))


SOURCES = [
    ("clinc+oos-eval", clinc), ("PolyAI-LDN+task-specific-datasets", banking), ("PolyAI-LDN+task-specific-datasets", nlupp), ("xliuhw+NLU-Evaluation-Data", nlu),
    ("sonos+nlu-benchmark", snips), ("RhiM1+GoEmotions-pytorch", emotions), ("felipessalvatore+NLI_datasets", inference), ("t-davidson+hate-speech-and-offensive-language", tweets),
    ("KalyaniViswanadha+Sentiment-Analysis", sentences), ("fehimkus+machine-learning", clothes), ("AlexandreBoult+Spam-Filter", short_messages),
    ("felipessalvatore+NLI_datasets", captions), ("felipessalvatore+NLI_datasets", answering), ("wilburOne+cosmosqa", reading), ("239-software+BoolQ", yes_or_no),
    ("AbhilashaRavichander+CondaQA", negated), ("nyu-mll+BBQ", who_of_two), ("wangcunxiang+SemEval2020-Task4-Commonsense-Validation-and-Explanation", sensible), ("bhargaviparanjape+clickbait", headlines),
    ("surge-ai+toxicity", toxic), ("google-research-datasets+query-wellformedness", asked_well), ("bitext+customer-support-intent-detection-training-dataset", service),
    ("awslabs+multi-domain-goal-oriented-dialogues-dataset", customers), ("google-research-datasets+dstc8-schema-guided-dialogue", dialogues), ("kushalchawla+CaSiNo", campers), ("nbertagnolli+counsel-chat", counsel),
    ("PolyAI-LDN+task-specific-datasets", bookings),
]


def main():
    clones, out = Path(sys.argv[1]), Path(sys.argv[2])
    with lzma.open(out, "wt", encoding="utf-8", preset=9 | lzma.PRESET_EXTREME) as f:
        for folder, read in SOURCES:
            seen = set()
            for item in read(Clone(clones / folder / "repo")):
                key = item["t"] + item.get("h", "")
                if item["t"] and key not in seen:
                    seen.add(key)
                    f.write(json.dumps(item, ensure_ascii=False) + "\n")
            print(f"{read.__name__}: {len(seen)}", flush=True)


if __name__ == "__main__":
    main()
