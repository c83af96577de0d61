"""Texts and labels of public datasets (README.md names them and their licences), from clones of their repositories to one packed file.

    python3 extract_corpora.py CLONES corpora.jsonl.xz

CLONES holds a folder `owner+name/repo` for each. A line of the result is {"s": dataset, "t": text, ...}.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import re
import subprocess
import sys
from pathlib import Path

SLOT = re.compile(r"\[\s*([a-z_]+)\s*:\s*([^\]]+?)\s*\]")
NLU = "CrossValidation/autoGeneFromRealAnno/autoGene_2018_03_22-13_01_25_169/CrossValidation/KFold_1/"


class Clone:
    def __init__(self, folder: Path):
        self.git = ["git", "-C", str(folder)]

    def names(self) -> list[str]:
        return subprocess.run(self.git + ["ls-tree", "-r", "--name-only", "HEAD"], capture_output=True, text=True, check=True).stdout.split("\n")

    def text(self, path: str) -> str:
        return subprocess.run(self.git + ["show", f"HEAD:{path}"], capture_output=True, check=True).stdout.decode("utf-8", "replace")


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


SOURCES = [
    ("clinc+oos-eval", clinc), ("PolyAI-LDN+task-specific-datasets", banking), ("PolyAI-LDN+task-specific-datasets", nlupp), ("xliuhw+NLU-Evaluation-Data", nlu),
    ("sonos+nlu-benchmark", snips), ("RhiM1+GoEmotions-pytorch", emotions), ("felipessalvatore+NLI_datasets", inference), ("t-davidson+hate-speech-and-offensive-language", tweets),
    ("KalyaniViswanadha+Sentiment-Analysis", sentences), ("fehimkus+machine-learning", clothes), ("AlexandreBoult+Spam-Filter", short_messages),
]


def main():
    clones, out = Path(sys.argv[1]), Path(sys.argv[2])
    with lzma.open(out, "wt", encoding="utf-8", preset=6) as f:
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
