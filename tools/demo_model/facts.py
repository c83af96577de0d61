"""Small worlds in sentences: who did what, what is how, how many, where, allowed or not; and questions whose answers follow.

They teach reading: negation, opposites, who and whom, what is said and what is not.
"""

from __future__ import annotations

import asking
import slots

# Pairs of opposites a thing can be; the first fields say of what kind of thing.
OPPOSITES = {
    "thing": """new/old clean/dirty wet/dry hot/cold cheap/expensive full/empty heavy/light big/small broken/intact fast/slow long/short
 soft/hard loud/quiet bright/dark fresh/rotten sharp/blunt thick/thin safe/dangerous available/sold_out modern/outdated
 clean/filthy tidy/messy wide/narrow""",
    "door": "open/closed locked/unlocked open/shut",
    "device": "on/off switched_on/switched_off running/stopped working/broken charged/empty online/offline connected/disconnected plugged_in/unplugged",
    "person": """awake/asleep happy/sad healthy/ill early/late present/absent married/single rich/poor young/old busy/free tall/short calm/nervous
 polite/rude alive/dead satisfied/disappointed hungry/full brave/afraid strong/weak friendly/unfriendly tired/rested sober/drunk inside/outside""",
    "matter": """finished/unfinished approved/rejected paid/unpaid signed/unsigned complete/incomplete correct/wrong legal/illegal public/secret urgent/not_urgent
 possible/impossible solved/unsolved true/false free_of_charge/subject_to_a_fee official/unofficial confirmed/cancelled easy/difficult""",
    "place": "crowded/deserted open/closed warm/cold near/far quiet/noisy safe/dangerous lit/dark indoors/outdoors",
}
OPPOSITES = {k: [tuple(w.replace("_", " ") for w in p.split("/")) for p in v.split()] for k, v in OPPOSITES.items()}
NOUNS = {
    "thing": "box bag knife coat shirt soup bread car bicycle book table room kitchen floor cup bottle bed phone road music lamp water sofa garden towel glass milk shelf".split(),
    "door": ["door", "gate", "window", "garage", "shop", "safe", "cupboard", "drawer", "back door", "front door", "office", "gym"],
    "device": ["pump", "heater", "server", "alarm", "printer", "engine", "radio", "light", "camera", "fan", "router", "oven", "machine", "laptop", "sensor", "lamp", "dishwasher"],
    "person": ["girl", "boy", "patient", "driver", "guest", "manager", "teacher", "neighbour", "nurse", "tenant", "baby", "visitor", "player", "clerk", "sister", "uncle", "dog", "cat"],
    "matter": ["order", "contract", "report", "invoice", "request", "form", "test", "task", "application", "answer", "plan", "meeting", "repair", "payment", "ticket", "problem", "booking"],
    "place": ["museum", "station", "beach", "park", "market", "library", "street", "harbour", "pool", "café", "office", "church", "hall", "cellar"],
}
NOUNS["place"] = [n for n in NOUNS["place"] if n.isascii()] + ["cafe"]

# base, past, participle: objects
VERBS = """buy bought bought|a car;a house;two tickets;a dress;a sofa;flowers
sell sold sold|the car;the house;the boat;old books
open opened opened|the door;the letter;the window;the parcel
close closed closed|the door;the shop;the window;the account
lose lost lost|the keys;the wallet;the match;the passport;a ring
find found found|the keys;a coin;the dog;a mistake;the solution
send sent sent|a letter;the invoice;the parcel;a message;the report
receive received received|a letter;the parcel;the money;an offer;a gift
write wrote written|a letter;a report;a song;the review;the minutes
read read read|the book;the contract;the message;the manual
break broke broken|a window;the cup;the record;a leg;the lamp
repair repaired repaired|the bicycle;the roof;the pump;the printer
clean cleaned cleaned|the kitchen;the windows;the floor;the car
cook cooked cooked|dinner;the soup;rice;a goose
eat ate eaten|the cake;an apple;the soup;breakfast
drink drank drunk|the coffee;a glass of milk;the wine
call called called|the doctor;the police;a friend;the plumber
pay paid paid|the bill;the rent;the fine;the invoice
sign signed signed|the contract;the form;the letter;the lease
cancel cancelled cancelled|the meeting;the order;the trip;the booking
book booked booked|a table;a room;a flight;the hall
approve approved approved|the plan;the request;the budget;the change
reject rejected rejected|the offer;the plan;the request;the proposal
visit visited visited|the museum;the hospital;an aunt;the factory
clean washed washed|the shirts;the dishes;the dog
plant planted planted|a tree;roses;tomatoes
win won won|the race;a prize;the match;the election
miss missed missed|the train;the deadline;the lesson;the bus
steal stole stolen|the bike;a laptop;the purse
return returned returned|the book;the shoes;the key
order ordered ordered|pizza;new chairs;a taxi;spare parts
deliver delivered delivered|the parcel;the flowers;the furniture
paint painted painted|the wall;the fence;a portrait
build built built|a house;a bridge;a shed
forget forgot forgotten|the umbrella;the appointment;the password
finish finished finished|the report;the race;the homework;the job
delete deleted deleted|the file;the photos;the account
install installed installed|the update;the program;the heater
sell rented rented|a flat;a car;a boat
lock locked locked|the door;the safe;the gate
move moved moved|the table;the appointment;the car
invite invited invited|the neighbours;the boss;the children
teach taught taught|the class;a course;the children
drive drove driven|the bus;the lorry;the children home
feed fed fed|the cat;the birds;the baby
water watered watered|the plants;the garden;the lawn
catch caught caught|a fish;the ball;the thief;a cold""".splitlines()
BASES = {"washed": "wash", "rented": "rent"}


def _verbs():
    for line in VERBS:
        forms, objects = line.split("|")
        base, past, participle = forms.split()
        yield BASES.get(past, base), past, participle, objects.split(";")


VERBS = list(_verbs())
TIMES = ["yesterday", "on Monday", "on Tuesday", "on Friday", "last week", "this morning", "in March", "at noon", "last night", "on Sunday", "in autumn", "two days ago"]
PLACES = ["in the kitchen", "at the station", "in the garden", "at school", "in the office", "at home", "on the beach", "in the cellar", "at the airport", "in the library", "in the car", "at the market", "in the hospital"]
ROLES = ["the driver", "my sister", "the nurse", "the manager", "our neighbour", "my father", "the teacher", "the client", "the baker", "her brother", "the tenant", "the mayor", "the boss", "the guest"]

CATEGORIES = {
    "food": "bread cheese apples rice soup eggs butter sausages pasta tomatoes honey beans",
    "clothing": "shirt trousers socks coat skirt sweater scarf gloves hat jacket dress",
    "tools": "hammer saw drill pliers screwdriver wrench chisel axe spade",
    "animals": "dog cat horse cow sheep parrot rabbit goat mouse tiger elephant",
    "furniture": "table chair sofa wardrobe shelf desk bed cupboard stool",
    "vehicles": "car bus lorry van bicycle tram motorbike ambulance tractor",
    "toys": "doll puzzle kite marbles teddy_bear building_blocks toy_train spinning_top",
    "musical instruments": "violin piano flute drum guitar trumpet cello harp",
    "electronics": "laptop phone television camera printer tablet headphones radio",
    "plants": "rose tulip oak fern cactus ivy daisy pine",
    "body parts": "knee elbow ear nose shoulder back finger toe",
    "drinks": "coffee tea juice beer wine lemonade milk water",
    "sports": "football tennis swimming boxing rowing judo hockey skiing",
    "kitchen appliances": "toaster oven fridge kettle blender mixer microwave dishwasher",
    "garden tools": "rake spade lawn_mower hose wheelbarrow pruning_shears watering_can",
    "stationery": "pencil paper stapler eraser ruler envelope notebook folder",
    "medicine": "aspirin plaster bandage cough_syrup ointment insulin vaccine",
    "baby goods": "nappies dummy pram cot baby_bottle bib rattle wipes",
    "camping gear": "tent sleeping_bag rucksack gas_stove torch compass water_bottle",
    "office equipment": "printer desk chair monitor copier whiteboard projector",
    "buildings": "church school hospital factory castle barn station library",
    "jobs": "baker nurse pilot teacher plumber lawyer cook farmer",
    "cleaning supplies": "mop bucket sponge bleach broom soap detergent",
    "bathroom things": "toothbrush towel shampoo razor soap comb mirror",
    "jewellery": "ring necklace bracelet earrings brooch watch",
    "shoes": "boots sandals trainers slippers clogs",
    "weather": "rain snow fog hail thunder sunshine wind",
    "feelings": "joy anger fear sadness pride envy shame love",
    "fruit": "apple pear banana cherry grapes orange lemon plum",
    "vegetables": "carrot onion cabbage spinach leek cucumber potato pepper",
    "books": "novel dictionary atlas cookbook biography textbook",
}
CATEGORIES = {k: [w.replace("_", " ") for w in v.split()] for k, v in CATEGORIES.items()}


def cap(text: str) -> str:
    return text[:1].upper() + text[1:]


def person(rng):
    return slots.name(rng) if rng.random() < 0.6 else rng.choice(ROLES)


def names_apart(rng, count):
    found = []
    while len(found) < count:
        p = person(rng)
        if p not in found:
            found.append(p)
    return found


def quality(rng):
    """The door is open / is not open / is no longer open."""
    kind = rng.choice(list(OPPOSITES))
    noun = rng.choice(NOUNS[kind])
    a, b = rng.choice(OPPOSITES[kind])
    if rng.random() < 0.5:
        a, b = b, a
    the = rng.choice(("The", "The", "My", "Our", "Their")) + " " + noun
    draw = rng.random()
    subject = "the " + noun
    sure = 0.97
    if draw < 0.5:
        text, holds = rng.choice((f"{the} is {a}.", f"{the} was {a}.", f"{the} is still {a}.", f"{the} is very {a}.", f"{the} seems to be {a}.", f"{the} is quite {a} today.", f"{the}: {a}.")), a
    elif draw < 0.72:
        text, holds = rng.choice((f"{the} is not {b}.", f"{the} isn't {b} any more.", f"{the} is no longer {b}.", f"{the} is anything but {b}.", f"{the} is not {b} yet.")), a
    elif draw < 0.86:
        text, holds = rng.choice((f"{the} used to be {b}, but now it is {a}.", f"{the} is {a} again.", f"{the} became {a}.", f"{the} was {b} yesterday and is {a} today.")), a
    else:
        text, holds = f"{the} is {a}, which is " + rng.choice(("good.", "bad.", "what we wanted.", "a pity.")), a
    asked = []
    for _ in range(rng.choice((1, 2))):
        if rng.random() < 0.3:
            asked.append(asking.choice(rng, rng.choice((f"How is {subject}?", f"Condition of {subject}", f"State of {subject}", f"What is {subject} like?")), noun, [(a, None), (b, None)], 0, other_rate=0.05))
        else:
            yes = rng.random() < 0.5
            w = a if yes else b
            asked.append(asking.noul(rng, rng.choice((f"Is {subject} {w}?", f"Is {subject} {w}?", f"{subject} is {w}", f"Was {subject} {w}?" if " was " in text and "now" not in text else f"Is {subject} {w} now?")), sure if yes else 1 - sure))
    return text, asked


def deed(rng):
    who, other = names_apart(rng, 2)
    base, past, participle, objects = rng.choice(VERBS)
    thing = rng.choice(objects)
    time, place = rng.choice(TIMES), rng.choice(PLACES)
    tail = rng.choice(("", f" {time}", f" {place}", f" {place} {time}"))
    done = rng.random() < 0.62
    if done:
        text = rng.choice((f"{who} {past} {thing}{tail}.", f"{who} has already {participle} {thing}." if not tail else f"{who} {past} {thing}{tail}.", f"{cap(thing)} was {participle} by {who}{tail}." if not thing.endswith("s") else f"{who} {past} {thing}{tail}."))
    else:
        tail = ""
        text = rng.choice((f"{who} did not {base} {thing}.", f"{who} hasn't {participle} {thing} yet.", f"{who} never {past} {thing}.", f"{who} refused to {base} {thing}.", f"{who} forgot to {base} {thing}.", f"{who} will {base} {thing} next week.", f"{who} wants to {base} {thing} soon.", f"{who} was not able to {base} {thing}."))
    asked = []
    for _ in range(rng.choice((1, 2, 2))):
        draw = rng.random()
        if draw < 0.4:
            asked.append(asking.noul(rng, rng.choice((f"Did {who} {base} {thing}?", f"Has {who} {participle} {thing}?", f"{who} {past} {thing}", f"Was {thing} {participle}?" if not thing.endswith("s") else f"Were {thing} {participle}?")), 0.97 if done else 0.03))
        elif draw < 0.6:
            if not done:
                asked.append(asking.noul(rng, rng.choice((f"Is {thing} still not {participle}?", f"Has {who} failed to {base} {thing}?")), 0.93))
            elif rng.random() < 0.5:
                asked.append(asking.noul(rng, f"Did {other} {base} {thing}?", 0.04))
            else:
                wrong = [o for o in objects if o != thing]
                asked.append(asking.noul(rng, f"Did {who} {base} {rng.choice(wrong)}?", 0.04))
        elif draw < 0.75 and done:
            people = [who] + names_apart(rng, rng.choice((1, 2, 3)))
            asked.append(asking.choice(rng, rng.choice((f"Who {past} {thing}?", f"Who did it?", "Who is it about?")), "who", [(p, None) for p in dict.fromkeys(people)], 0, other_rate=0.1))
        elif draw < 0.88 and done:
            wrong = rng.sample([o for v in VERBS for o in v[3] if o != thing], 3)
            asked.append(asking.choice(rng, rng.choice((f"What did {who} {base}?", f"What was {participle}?")), "what", [(o, None) for o in [thing] + wrong], 0, other_rate=0.05))
        elif time in tail:
            wrong = rng.sample([t for t in TIMES if t != time], 3)
            asked.append(asking.choice(rng, "When did it happen?", "when", [(t, None) for t in [time] + wrong], 0, other_rate=0.05))
        elif place in tail and tail:
            wrong = rng.sample([t for t in PLACES if t != place], 3)
            asked.append(asking.choice(rng, rng.choice(("Where did it happen?", f"Where did {who} {base} {thing}?")), "where", [(t, None) for t in [place] + wrong], 0, other_rate=0.05))
    return text, [a for a in asked if a]


def numbers(rng):
    who = person(rng)
    noun = rng.choice("apples chairs tickets books boxes errors guests emails rooms children windows licences days hours miles pages bottles dogs".split())
    words = "zero one two three four five six seven eight nine ten eleven twelve".split()
    n = rng.randint(1, 12) if rng.random() < 0.6 else rng.randint(13, 900)
    shown = words[n] if n <= 12 and rng.random() < 0.5 else str(n)
    text = rng.choice((f"{cap(who)} has {shown} {noun}.", f"There are {shown} {noun}.", f"We counted {shown} {noun}.", f"{cap(who)} needs {shown} {noun}.", f"{cap(who)} ordered {shown} {noun}.", f"Number of {noun}: {shown}."))
    asked = []
    draw = rng.random()
    if draw < 0.5:
        wrong = set()
        while len(wrong) < 3:
            m = max(0, n + rng.choice((-5, -3, -2, -1, 1, 2, 4, 7, 10))) if n > 12 else rng.randint(0, 12)
            if m != n:
                wrong.add(m)
        options = [n] + list(wrong)
        spelled = max(options) <= 12 and rng.random() < 0.5
        asked.append(asking.choice(rng, rng.choice((f"How many {noun}?", f"How many {noun} are there?", f"Number of {noun}")), noun, [(words[o] if spelled else str(o), None) for o in options], 0, other_rate=0.03))
    else:
        limit = rng.choice((1, 2, 3, 5, 10, 20, 50, 100))
        if limit != n:
            if rng.random() < 0.6:
                asked.append(asking.noul(rng, rng.choice((f"Are there more than {limit} {noun}?", f"Is the number of {noun} above {limit}?", f"more than {limit} {noun}")), 0.93 if n > limit else 0.07))
            else:
                asked.append(asking.noul(rng, rng.choice((f"Are there fewer than {limit} {noun}?", f"Is the number of {noun} below {limit}?")), 0.93 if n < limit else 0.07))
    return text, asked


def things(rng):
    """A list of things of one kind, some there, some not."""
    kind = rng.choice(list(CATEGORIES))
    words = rng.sample(CATEGORIES[kind], min(len(CATEGORIES[kind]), rng.choice((2, 3, 3, 4))))
    missing = rng.choice(CATEGORIES[rng.choice(list(CATEGORIES))])
    listed = ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else words[0]
    who = person(rng)
    text = rng.choice((f"{cap(who)} bought {listed}.", f"We need {listed}.", f"On the list: {listed}.", f"{cap(listed)}.", f"Put {listed} on my list.", f"In the box: {listed}.", f"I saw {listed}.", f"Order: {listed}.", ", ".join(words)))
    asked = []
    for _ in range(rng.choice((1, 2, 2))):
        draw = rng.random()
        wrong = [k for k in CATEGORIES if k != kind and not set(CATEGORIES[k]) & set(words)]
        if draw < 0.45:
            asked.append(asking.choice(rng, rng.choice(("What kind of things are these?", "Category", "What is listed?", "Which group do they belong to?", "Type of goods", "Department", "What are these?", "Kind of items")), "category", [(k, None) for k in [kind] + rng.sample(wrong, rng.choice((1, 2, 3, 4)))], 0))
        elif draw < 0.75:
            yes = rng.random() < 0.5
            k = kind if yes else rng.choice(wrong)
            asked.append(asking.noul(rng, rng.choice((f"Are these {k}?", f"Does the list contain {k}?", f"Is it about {k}?", f"Are the items {k}?", f"Is there anything from the category {k}?")), 0.95 if yes else 0.04))
        else:
            yes = rng.random() < 0.5
            w = rng.choice(words) if yes else missing
            if yes or w not in words:
                asked.append(asking.noul(rng, rng.choice((f"Is {w} mentioned?", f"Is there {w} on the list?", f"Does it include {w}?")), 0.97 if yes else 0.04))
    return text, [a for a in asked if a]


def single(rng):
    """What is this thing? for one word or a described thing."""
    kind = rng.choice(list(CATEGORIES))
    w = rng.choice(CATEGORIES[kind])
    text = rng.choice((f"the {w}", f"{cap(w)}", f"I have a question about the {w}.", f"The {w} is new.", f"Somebody left a {w} here.", f'{{"product":"{w}"}}', f"We talked about the {w} for an hour."))
    wrong = [k for k in CATEGORIES if k != kind and w not in CATEGORIES[k]]
    asked = [asking.choice(rng, rng.choice(("What is it?", "Category of the product", "What kind of thing is it?", "Category", "Which category?", "Type")), "kind", [(k, None) for k in [kind] + rng.sample(wrong, rng.choice((1, 2, 3, 4)))], 0)]
    return text, asked


def permission(rng):
    what = rng.choice("dogs;pets;smoking;children;bicycles;cameras;cars;visitors;loud music;food and drink;cats;tents;phones".split(";"))
    plural = what not in ("smoking", "loud music", "food and drink")
    be = "are" if plural else "is"
    ok = rng.random() < 0.5
    place = rng.choice(("here", "in the building", "in the park", "in the flat", "on the train", "in the museum", "in the garden"))
    text = rng.choice((f"{cap(what)} {be} allowed {place}.", f"{cap(what)} {be} welcome {place}.", f"{cap(what)}: yes.", f"You may bring {what}.", f"{cap(what)} {be} permitted.")) if ok else \
        rng.choice((f"{cap(what)} {be} not allowed {place}.", f"No {what}, please.", f"No {what} {place}.", f"{cap(what)} {be} forbidden {place}.", f"{cap(what)} must stay outside.", f"{cap(what)}: no.", f"We do not accept {what}."))
    asked = [asking.noul(rng, rng.choice((f"{cap(be)} {what} allowed?", f"{cap(be)} {what} welcome?", f"May one bring {what}?" if plural else f"Is {what} permitted?")), 0.97 if ok else 0.03)]
    if rng.random() < 0.3:
        asked.append(asking.noul(rng, f"{cap(be)} {what} forbidden?", 0.03 if ok else 0.97))
    return text, asked


def existence(rng):
    noun = rng.choice("balcony garden lift parking_space garage swimming_pool cellar terrace fireplace bathtub fence window kitchen guarantee manual discount contract signature deadline attachment meeting warning".split()).replace("_", " ")
    there = rng.random() < 0.5
    the = rng.choice(("flat", "house", "hotel", "place", "offer", "document"))
    art = "an" if noun[0] in "aeiou" else "a"
    text = rng.choice((f"There is {art} {noun}.", f"The {the} has {art} {noun}.", f"It comes with {art} {noun}.", f"With {noun}.", f"{cap(noun)} included.")) if there else \
        rng.choice((f"There is no {noun}.", f"The {the} has no {noun}.", f"Without {noun}.", f"It lacks {art} {noun}.", f"No {noun}.", f"The {noun} is missing."))
    asked = [asking.noul(rng, rng.choice((f"Is there {art} {noun}?", f"Does the {the} have {art} {noun}?", f"Does it have {art} {noun}?", f"has {noun}")), 0.97 if there else 0.03)]
    return text, asked


def change(rng):
    a, b = rng.sample(slots.DAYS, 2)
    noun = rng.choice("meeting lesson appointment delivery match party exam concert call".split())
    text = rng.choice((f"The {noun} moves from {a} to {b}.", f"The {noun} is on {b}, not on {a}.", f"The {noun} was planned for {a} but is now on {b}.", f"We meet for the {noun} on {b} instead of {a}."))
    others = rng.sample([d for d in slots.DAYS if d not in (a, b)], rng.choice((1, 2)))
    asked = [asking.choice(rng, rng.choice((f"When is the {noun}?", f"On which day does the {noun} take place?", "Which day?", "New day")), "day", [(d, None) for d in [b, a] + others], 0, other_rate=0.03)]
    if rng.random() < 0.5:
        yes = rng.random() < 0.5
        asked.append(asking.noul(rng, rng.choice((f"Is the {noun} on {b if yes else a}?", f"Does the {noun} take place on {b if yes else a}?")), 0.95 if yes else 0.06))
    if rng.random() < 0.4:
        asked.append(asking.noul(rng, rng.choice((f"Has the {noun} been moved?", f"Was the {noun} rescheduled?")), 0.96))
    return text, asked


def reason(rng):
    """Why: because of what."""
    reasons = [("illness", ["because I am ill", "since he has the flu", "as she broke her leg"]), ("bad weather", ["because of the storm", "since it snowed all night", "because it rained"]),
               ("lack of money", ["because we have no money", "since it costs too much", "as I can't afford it"]), ("lack of time", ["because I have no time", "since we are too busy", "as the day was full"]),
               ("relocation", ["because we moved to another town", "since I live abroad now", "as she is moving house"]), ("a technical fault", ["because the machine broke", "since the system crashed", "as the motor failed"]),
               ("a mistake", ["because somebody made a mistake", "since the wrong number was typed in", "as we mixed it up"]), ("bad service", ["because nobody helped us", "since the staff was rude", "as they treated us badly"]),
               ("better offer", ["because another shop is cheaper", "since we found a better one", "as a rival offered more"]), ("traffic", ["because of a traffic jam", "since the road was closed", "as the bus was stuck"])]
    right, says = rng.choice(reasons)
    act = rng.choice(("I am cancelling", "We did not come", "She is late", "The trip was called off", "I want to stop", "He left early", "They closed the shop", "We can't deliver"))
    text = f"{act} {rng.choice(says)}."
    wrong = rng.sample([r for r, _ in reasons if r != right], rng.choice((1, 2, 3)))
    return text, [asking.choice(rng, rng.choice(("Why?", "Reason", "What is the reason?", "Cause", "For what reason?")), "reason", [(r, None) for r in [right] + wrong], 0)]


MAKERS = [(quality, 4), (deed, 6), (numbers, 2), (things, 3), (single, 1), (permission, 1), (existence, 2), (change, 1), (reason, 2)]
WEIGHTED = [m for m, w in MAKERS for _ in range(w)]


class Facts:
    def __init__(self, noise):
        self.noise = noise

    def make(self, rng, examples=()):
        texts, asked = [], []
        for _ in range(rng.choice((1, 1, 2, 2, 3))):
            text, questions = rng.choice(WEIGHTED)(rng)
            texts.append(cap(text) if rng.random() < 0.95 else text)
            asked += [q for q in questions if q]
        if examples and rng.random() < 0.15:
            texts.insert(rng.randint(0, len(texts)), rng.choice(examples))
        rng.shuffle(texts)
        state = " ".join(texts)
        if rng.random() < 0.3:
            state = state.lower() if rng.random() < 0.5 else self.noise(rng, state)
        rng.shuffle(asked)
        return state, asked[:5]
