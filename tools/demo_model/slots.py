"""Fillers for the slots of the phrase banks: names, places, things, numbers. Every draw comes from the caller's rng."""

from __future__ import annotations

ONSETS = "b br d dr f fl g gr h j k kl l m n p pr r s st t tr v w z sh th ch".split()
NUCLEI = "a e i o u ai ea ia o u a e i".split()
CODAS = ["", "", "", "n", "r", "l", "s", "m", "k", "nd", "rt", "x", "t"]

FIRST = """Anna Ben Carla David Elena Farid Grace Hugo Ines Jamal Karin Luis Maya Nils Olga Pedro Rosa Samir Tara Umar Vera
Wei Yuki Zoe Adam Bella Chen Dora Emil Fiona George Hana Ivan Julia Kofi Lena Mark Nadia Oscar Priya Ravi Sofia Theo Amara
Victor Wanda Aisha Bruno Clara Dmitri Ella Finn Gita Henrik Iris Jonas Kira Leo Mina Noah Paula Quentin Rita Stefan Tom""".split()
LAST = """Smith Meyer Costa Novak Larsen Okoye Patel Rossi Kim Silva Haas Moreau Lindqvist Tanaka Weber Brown Ortiz Petrov
Jensen Walsh Khan Berg Dubois Fischer Gomez Hoffman Ito Jansen Keller Lopez Marino Nowak""".split()
CITIES = """Berlin Madrid Porto Dublin Oslo Vienna Prague Warsaw Athens Rome Milan Zurich Geneva Lyon Bristol Leeds Boston
Denver Austin Toronto Sydney Perth Nairobi Lagos Cairo Tunis Delhi Mumbai Tokyo Osaka Seoul Lima Quito Bogota Riga Tallinn
Helsinki Malmo Ghent Basel Graz Split Cork York Bath Dover Kassel Bremen Leipzig""".split()
STREETS = "Oak Elm Park Church Station Garden Hill Lake River Bridge School Market Rose Castle Forest Meadow Queen King".split()
STREET_KINDS = "Street Road Lane Avenue Way Square".split()
ITEMS = """lamp table chair backpack phone jacket coat camera toaster kettle vacuum cleaner|vacuum cleaner|coffee machine|
headphones|keyboard|monitor|laptop|tablet|watch|bicycle|helmet|tent|rucksack|umbrella|mattress|sofa|bookshelf|rug|mirror|
drill|saw|hammer|ladder|lawn mower|blender|mixer|oven|fridge|washing machine|dryer|iron|hair dryer|razor|toothbrush|sweater|
dress|skirt|shirt|jeans|sandals|trainers|boots|gloves|scarf|hat|belt|wallet|suitcase|guitar|piano|drum|violin|puzzle|doll|
toy train|board game|ball|racket|skateboard|printer|router|speaker|charger|cable|memory card|projector|clock|vase|candle|
pillow|blanket|curtain|towel|pan|pot|knife set|plate|cup|bottle|thermos|grill|garden chair|hose|pruning shears|bird feeder|
dog bed|cat tree|aquarium|baby carriage|car seat|crib|scooter|treadmill|yoga mat|dumbbells|fishing rod|binoculars|telescope""".replace("\n", "").split("|")
ITEMS = [i for i in ITEMS if " " not in i or len(i.split()) < 4] + "lamp table chair backpack phone jacket coat camera toaster kettle".split()
FOODS = """milk eggs butter cheese flour sugar rice pasta tomatoes onions potatoes carrots apples bananas oranges lemons
bread yoghurt ham chicken beef fish lentils beans oats honey jam coffee tea juice mushrooms spinach garlic nuts""".split()
COLORS = "red blue green black white grey yellow brown purple orange pink silver".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
ROOMS = ["kitchen", "bathroom", "bedroom", "living room", "hall", "cellar", "attic", "garage", "office", "nursery", "study"]
JOBS = """cook driver nurse teacher baker carpenter welder accountant designer developer waiter cleaner guard electrician
pharmacist librarian translator gardener mechanic hairdresser receptionist engineer lawyer""".split()
TOPICS = ["budget", "new website", "move", "contract", "schedule", "summer party", "audit", "training plan", "product launch",
          "survey", "hiring plan", "warehouse", "pricing", "customer list", "newsletter", "trade fair", "merger"]
SERVICES = ["search", "login", "payment", "billing", "mail", "upload", "booking", "chat", "reporting", "video", "image",
            "checkout", "notification", "order", "inventory", "map"]
COMPANIES = "Arvo Belmont Cantor Delmar Estria Fontis Galvex Hartwig Inova Jupiter Kestrel Lumina Maritex Nordon Orbis Pallas".split()


def word(rng) -> str:
    """A made-up word: two or three syllables."""
    return "".join(rng.choice(ONSETS) + rng.choice(NUCLEI) + rng.choice(CODAS) for _ in range(rng.choice((2, 2, 3))))


def name(rng) -> str:
    draw = rng.random()
    first = rng.choice(FIRST) if draw < 0.7 else word(rng).capitalize()[:8]
    if rng.random() < 0.7:
        return first
    return first + " " + (rng.choice(LAST) if rng.random() < 0.6 else word(rng).capitalize()[:9])


def amount(rng) -> str:
    value = rng.choice((rng.randint(2, 99), rng.randint(100, 999), rng.randint(1000, 9999)))
    text = f"{value}.{rng.choice(('00', '50', '90', '99', '20'))}" if rng.random() < 0.4 else str(value)
    return rng.choice(("{} euros", "${}", "{} EUR", "{} dollars", "{}", "{} pounds")).format(text)


def clock(rng) -> str:
    return rng.choice((f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}", f"{rng.randint(1, 12)} o'clock", f"half past {rng.choice('two three six seven eight nine'.split())}",
                       f"{rng.randint(1, 11)} {rng.choice(('am', 'pm'))}"))


def date(rng) -> str:
    return rng.choice((f"{rng.randint(1, 28)} {rng.choice(MONTHS)}", f"the {rng.randint(4, 20)}th", f"{rng.choice(MONTHS)} {rng.randint(1, 28)}"))


FILL = {
    "name": name, "name2": name,
    "city": lambda r: r.choice(CITIES) if r.random() < 0.8 else word(r).capitalize(),
    "city2": lambda r: r.choice(CITIES),
    "street": lambda r: f"{r.randint(1, 150)} {r.choice(STREETS)} {r.choice(STREET_KINDS)}",
    "item": lambda r: r.choice(ITEMS), "item2": lambda r: r.choice(ITEMS),
    "food": lambda r: r.choice(FOODS), "food2": lambda r: r.choice(FOODS),
    "color": lambda r: r.choice(COLORS),
    "day": lambda r: r.choice(DAYS), "day2": lambda r: r.choice(DAYS),
    "month": lambda r: r.choice(MONTHS),
    "room": lambda r: r.choice(ROOMS),
    "job": lambda r: r.choice(JOBS),
    "topic": lambda r: r.choice(TOPICS),
    "service": lambda r: r.choice(SERVICES),
    "company": lambda r: r.choice(COMPANIES) if r.random() < 0.7 else word(r).capitalize(),
    "host": lambda r: f"{r.choice('web db app cache node mail disk edge'.split())}-{r.randint(1, 40)}",
    "word": word,
    "n": lambda r: str(r.choice((r.randint(10, 99), r.randint(100, 999), r.randint(1000, 99999)))),
    "small": lambda r: r.choice("2 3 4 5 6 7 8 9 two three four five six".split()),
    "small2": lambda r: str(r.randint(0, 9)),
    "pct": lambda r: str(r.randint(60, 99)),
    "temp": lambda r: str(r.randint(5, 30)),
    "year": lambda r: str(r.randint(1400, 1990)),
    "amount": amount, "amount2": amount,
    "time": clock, "time2": clock,
    "date": date, "date2": date,
    "phone": lambda r: f"{r.randint(100, 999)}-{r.randint(1000, 9999)}",
    "dir": lambda r: r.choice("north south east west".split()),
}
