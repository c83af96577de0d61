"""JSON states: records of a business or a device, and questions that their fields answer."""

from __future__ import annotations

import asking
import slots
from banks import URGENCY_SCALES

EMPTY = [None, "", []]


def yes_no(rng, text, truth, sure=0.97):
    return asking.noul(rng, text, sure if truth else 1 - sure)


def pick(rng, text, hint, right, wrong, soft=None):
    return asking.choice(rng, text, hint, [(right, None)] + [(w, None) for w in wrong if w != right], 0, other_rate=0.08)


def some(rng, options, count):
    return rng.sample(list(options), min(count, len(options)))


def order(rng):
    paid, shipped = rng.random() < 0.6, False
    shipped = paid and rng.random() < 0.6
    delivered = shipped and rng.random() < 0.5
    state = {"order": {"id": rng.randint(100, 99999), "paid": paid, "shipped": shipped, "delivered": delivered, "items": rng.sample(slots.ITEMS, rng.randint(1, 3)), "total": round(rng.random() * 900 + 5, 2)}}
    if rng.random() < 0.4:
        state["customer"] = slots.name(rng)
    if rng.random() < 0.3:
        del state["order"]["items"]
    stage = "delivered" if delivered else "on its way" if shipped else "being packed" if paid else "waiting for payment"
    stages = ["delivered", "on its way", "being packed", "waiting for payment"]
    action = {"delivered": ["ask for a review", "close the order", "nothing to do"], "on its way": ["wait for the delivery", "send tracking link"], "being packed": ["ship it", "ship the goods", "hand over to the courier"], "waiting for payment": ["send a payment reminder", "ask for payment", "wait for the money"]}
    wrong = [rng.choice(v) for k, v in action.items() if k != stage]
    return state, [
        yes_no(rng, rng.choice(("Has the order been paid?", "Is it paid?", "Did the customer pay?", "paid")), paid),
        yes_no(rng, rng.choice(("Has it been shipped?", "Was the order sent?", "Is the parcel on its way or already there?")), shipped),
        yes_no(rng, rng.choice(("Has the parcel arrived?", "Was it delivered?", "Does the customer have the goods?", "Is the order complete?")), delivered),
        yes_no(rng, rng.choice(("Is the payment still open?", "Is the order unpaid?")), not paid),
        pick(rng, rng.choice(("Where is the order?", "Stage of the order", "Status of the order", "What is the state of the order?")), "stage", stage, some(rng, stages, 4)),
        pick(rng, rng.choice(("What should happen next?", "Next step", "What is to be done?")), "next", rng.choice(action[stage]), wrong)]


def risk(rng):
    bad = rng.random() < 0.5
    state = {"order": {"id": rng.randint(100, 99999), "total": round(rng.uniform(900, 6000), 2) if bad else round(rng.uniform(5, 150), 2), "items": rng.sample(["laptop", "phone", "watch", "camera", "gift cards", "tablet"], 2) if bad else rng.sample(slots.ITEMS, 2)},
             "account": {"age_days": rng.randint(0, 3) if bad else rng.randint(200, 3000), "previous_orders": 0 if bad else rng.randint(2, 60)},
             "shipping": {"country": "RO" if bad else "DE", "same_as_billing": not bad}}
    if bad and rng.random() < 0.5:
        state["card_attempts"] = rng.randint(4, 12)
    elif not bad and rng.random() < 0.3:
        state["card_attempts"] = 1
    flat = {"order_total": state["order"]["total"], "account_age_days": state["account"]["age_days"], "same_address": not bad, "country_differs": bad}
    good_team, bad_team = ["warehouse", "shipping", "packing"], ["risk", "fraud team", "manual review", "fraud and risk"]
    if rng.random() < 0.3:
        state = flat
    return state, [
        yes_no(rng, rng.choice(("Is this order fraudulent?", "Could it be fraud?", "Is fraud suspected?", "Is the order suspicious?", "fraud")), bad, 0.9),
        yes_no(rng, rng.choice(("Is it a new account?", "Is the account new?", "Was the account opened recently?")), bad),
        yes_no(rng, rng.choice(("Can it be shipped without a check?", "Does the order look normal?")), not bad, 0.88),
        pick(rng, rng.choice(("Who should see the order next?", "Which team?", "Where does it go?")), "team", rng.choice(bad_team if bad else good_team), [rng.choice(good_team if bad else bad_team), rng.choice(("sales", "press office", "marketing", "large business orders"))]),
        asking.score(rng, rng.choice(("How risky is it?", "Risk", "How suspicious is the order?")), rng.choice((["low", "medium", "high"], ["none", "some", "high"], ["safe", "doubtful", "dangerous"])), 0.95 if bad else 0.05),
        asking.score(rng, rng.choice(("How soon must someone act?", "Urgency")), rng.choice((["Whenever", "This week", "Today", "Within the hour"], ["low", "medium", "high"])), 0.75 if bad else 0.08)]


def form(rng):
    fields = rng.sample(["name", "email", "phone", "address", "birth_date", "signature", "iban", "city", "postcode", "passport_number", "employer"], rng.randint(3, 6))
    make = {"name": slots.name, "email": lambda r: slots.word(r) + "@" + slots.word(r) + ".example", "phone": slots.FILL["phone"], "address": slots.FILL["street"], "birth_date": lambda r: f"{r.randint(1950, 2004)}-0{r.randint(1, 9)}-1{r.randint(0, 9)}",
            "signature": lambda r: r.choice(("present", "yes", True)), "iban": lambda r: f"XX{r.randint(10, 99)} {r.randint(1000, 9999)}", "city": slots.FILL["city"], "postcode": lambda r: str(r.randint(10000, 99999)), "passport_number": lambda r: f"P{r.randint(10**6, 10**7)}", "employer": slots.FILL["company"]}
    missing = rng.choice(fields) if rng.random() < 0.6 else None
    empty = rng.choice(EMPTY[:2])
    state = {f: (empty if f == missing else make[f](rng)) for f in fields}
    consent = rng.random() < 0.5
    if rng.random() < 0.6:
        state["consent"] = consent
    f = rng.choice(fields)
    shown = f.replace("_", " ")
    asked = [
        yes_no(rng, rng.choice((f"Was a {shown} given?", f"Is the {shown} filled in?", f"Is there a {shown}?", f"Did the person give their {shown}?")), f != missing),
        yes_no(rng, rng.choice(("Is the form complete?", "Are all fields filled in?", "complete")), missing is None, 0.93),
        yes_no(rng, rng.choice(("Is something missing?", "Is a field empty?")), missing is not None, 0.93)]
    if missing:
        asked.append(pick(rng, rng.choice(("Which field is empty?", "What is missing?", "Missing field")), "missing", missing.replace("_", " "), [g.replace("_", " ") for g in some(rng, [g for g in fields if g != missing], 4)]))
        asked.append(yes_no(rng, f"Is the {missing.replace('_', ' ')} missing?", True))
    if "consent" in state:
        asked.append(yes_no(rng, rng.choice(("Did the person agree?", "Is there consent?", "Was consent given?")), consent))
    return state, asked


def age(rng):
    years = rng.randint(3, 90)
    key = rng.choice(("age", "age", "years"))
    state = {rng.choice(("user", "name", "person", "patient")): slots.name(rng), key: years}
    if rng.random() < 0.5:
        state["country"] = rng.choice(("FR", "DE", "SE", "US"))
    ok = rng.random() < 0.5
    state["parent_consent"] = ok
    group = "child" if years < 13 else "teenager" if years < 18 else "adult" if years < 65 else "senior"
    return state, [
        yes_no(rng, rng.choice(("Is the person an adult?", "Is the user of full age?", "adult", "Is the person at least 18?")), years >= 18, 0.94),
        yes_no(rng, rng.choice(("Is the user a minor?", "Is the person under 18?", "Is it a child or a teenager?")), years < 18, 0.94),
        yes_no(rng, rng.choice(("Have the parents agreed?", "Is there a consent of the parents?")), ok),
        pick(rng, rng.choice(("Age group", "How old is the person?")), "age_group", group, ["child", "teenager", "adult", "senior"])]


def stock(rng):
    n, level = rng.choice((0, 0, rng.randint(1, 9), rng.randint(30, 500))), rng.choice((10, 20))
    item = rng.choice(slots.ITEMS)
    state = {"product": item, "stock": n, "reorder_level": level, "supplier": slots.word(rng).capitalize()}
    if rng.random() < 0.3:
        state = {"sku": item, "in_stock": n, "minimum": level, "price": round(rng.uniform(3, 400), 2)}
    return state, [
        yes_no(rng, rng.choice(("Is the product out of stock?", "Is it sold out?", "Are there none left?")), n == 0),
        yes_no(rng, rng.choice(("Is the product in stock?", "Is it available?", "Can it be delivered from stock?")), n > 0),
        yes_no(rng, rng.choice(("Must it be reordered?", "Is the stock below the limit?", "Is the stock too low?")), n < level),
        pick(rng, rng.choice(("What should be done?", "Action", "Next step")), "action", rng.choice(("reorder", "order more")) if n < level else rng.choice(("do nothing", "nothing to do")), rng.choice((["discount it", "delete it"], ["throw it away", "nothing to do" if n < level else "reorder"])))]


def server(rng):
    status = rng.choice(("ok", "ok", "degraded", "down", "down"))
    words = {"ok": rng.choice(("ok", "healthy", "up", "running")), "degraded": rng.choice(("degraded", "slow", "warning")), "down": rng.choice(("down", "failed", "critical", "offline"))}
    errors = {"ok": 0, "degraded": rng.randint(5, 60), "down": rng.randint(300, 5000)}[status]
    service = rng.choice(slots.SERVICES)
    state = {"service": service, "status": words[status], "errors_per_minute": errors, "region": rng.choice(("eu-west", "us-east", "asia-1"))}
    draw = rng.random()
    if draw < 0.25:
        state = {"host": slots.FILL["host"](rng), "checks": {"ping": "ok" if status != "down" else "timeout", "disk": f"{rng.randint(10, 60)}%" if status == "ok" else f"{rng.randint(85, 100)}%"}, "state": words[status]}
        service = None
    elif draw < 0.45:
        high = {"ok": (3, 40), "degraded": (70, 88), "down": (94, 100)}[status]
        state = {"cpu": f"{rng.randint(*high)}%", "memory": f"{rng.randint(*high)}%", "disk": f"{rng.randint(5, 50)}%", "errors": [] if status == "ok" else ["timeout"] * rng.randint(1, 3)}
        service = None
    pos = {"ok": 0.03, "degraded": 0.5, "down": 0.97}[status]
    asked = [
        yes_no(rng, rng.choice(("Is the service failing?", "Is it down?", "Is something broken?", "Is there an outage?", "down")), status == "down", 0.95) if status != "degraded" else yes_no(rng, "Is the service slower than it should be?", True, 0.9),
        yes_no(rng, rng.choice(("Is everything fine?", "Is the machine fine?", "Is the service healthy?", "ok")), status == "ok"),
        yes_no(rng, rng.choice(("Should someone be alerted?", "Is an alarm needed?", "Must somebody look at it?")), status != "ok", 0.93 if status != "degraded" else 0.7),
        pick(rng, rng.choice(("State of the service", "Health", "How is it?", "Condition")), "health", {"ok": "healthy", "degraded": "degraded", "down": "down"}[status], ["healthy", "degraded", "down"]),
        pick(rng, rng.choice(("What should be done?", "Action")), "action", {"ok": rng.choice(("none", "nothing", "no action")), "degraded": "investigate", "down": rng.choice(("restart", "page on-call", "call the engineer"))}[status], [["investigate", "restart"], ["none", "restart"], ["none", "water the plants"]][("ok", "degraded", "down").index(status)]),
        asking.score(rng, rng.choice(("How severe is it?", "Severity", "How urgent is it?", "Priority")), rng.choice((["low", "medium", "high"], ["none", "minor", "major", "critical"], ["harmless", "serious", "very serious"])), pos)]
    if service:
        asked.append(pick(rng, rng.choice(("Which service is it about?", "Service", "What is affected?")), "service", service, some(rng, [s for s in slots.SERVICES if s != service], 3)))
    return state, asked


def ticket(rng):
    replied = rng.random() < 0.5
    vip = rng.random() < 0.4
    days = rng.choice((0, 1, 20, 60))
    state = {"ticket": f"{rng.choice('ABCDE')}-{rng.randint(1, 99)}", "opened_days_ago": days, "last_reply": rng.choice(("2023-05-01", "yesterday", "we are on it")) if replied else None, "vip": vip}
    if rng.random() < 0.5:
        state["assignee"] = slots.name(rng) if rng.random() < 0.5 else None
    asked = [
        yes_no(rng, rng.choice(("Has anyone replied?", "Was the ticket answered?", "Did the customer get a reply?")), replied),
        yes_no(rng, rng.choice(("Is the customer still waiting for a reply?", "Is the ticket unanswered?")), not replied, 0.94),
        yes_no(rng, rng.choice(("Is it an important customer?", "Is it a VIP?", "vip")), vip),
        asking.score(rng, rng.choice(("Priority", "How urgent is it?")), rng.choice((["low", "normal", "high"], ["low", "medium", "high"])), min(1.0, 0.1 + 0.45 * vip + 0.3 * (not replied) + 0.2 * (days > 10)))]
    if "assignee" in state:
        asked.append(yes_no(rng, rng.choice(("Is somebody assigned?", "Does anyone take care of it?")), state["assignee"] is not None))
    return state, asked


def invoice(rng):
    paid, reminders = rng.random() < 0.5, rng.choice((0, 0, 1, 2, 3))
    state = {"invoice": f"20{rng.randint(20, 26)}-{rng.randint(1, 500)}", "amount": rng.randint(20, 9000), "due": "2024-0{}-1{}".format(rng.randint(1, 9), rng.randint(0, 9)), "paid_on": "2024-03-12" if paid else None, "reminders_sent": 0 if paid else reminders}
    return state, [
        yes_no(rng, rng.choice(("Is the invoice paid?", "Was it paid?", "Has the money come in?")), paid),
        yes_no(rng, rng.choice(("Is the invoice open?", "Is money still owed?", "Is the payment missing?")), not paid),
        yes_no(rng, rng.choice(("Was a reminder sent?", "Was the debtor reminded?")), (not paid) and reminders > 0),
        asking.score(rng, rng.choice(("How pressing is it?", "Urgency of collecting the money")), rng.choice((["low", "medium", "high"], ["relaxed", "moderate", "pressing"])), 0.02 if paid else min(1.0, 0.3 + reminders * 0.22))]


def flags(rng):
    """Switches, sensors and other things that are on or off."""
    kinds = [("pump", "on", "off"), ("door", "open", "closed"), ("window", "open", "closed"), ("alarm", "armed", "disarmed"), ("light", "on", "off"), ("heating", "on", "off"), ("lock", "locked", "unlocked"), ("valve", "open", "shut"), ("motor", "running", "stopped"),
             ("battery", "full", "low"), ("soil", "dry", "wet"), ("network", "connected", "disconnected"), ("engine", "hot", "cold"), ("tank", "empty", "full"), ("wifi", "up", "down"), ("camera", "recording", "off")]
    chosen = rng.sample(kinds, rng.randint(2, 5))
    state, asked = {}, []
    for name, a, b in chosen:
        state[name] = rng.choice((a, b))
    if rng.random() < 0.5:
        state["room"] = rng.choice(slots.ROOMS)
    for name, a, b in rng.sample(chosen, min(3, len(chosen))):
        w = rng.choice((a, b))
        if rng.random() < 0.6:
            asked.append(yes_no(rng, rng.choice((f"Is the {name} {w}?", f"{name} {w}", f"Is the {name} {w} now?")), state[name] == w))
        else:
            asked.append(pick(rng, rng.choice((f"State of the {name}", f"How is the {name}?", f"Is the {name} {a} or {b}?")), name, state[name], [a, b]))
    if "soil" in state:
        asked.append(yes_no(rng, rng.choice(("Do the plants need water?", "Should the plants be watered?")), state["soil"] == "dry"))
    if "room" in state:
        asked.append(pick(rng, rng.choice(("Which room?", "Where is it?")), "room", state["room"], some(rng, slots.ROOMS, 4)))
    return state, asked


def generic(rng):
    """Any record at all: a field's value, whether it is set, true or above a number."""
    keys = rng.sample("active verified subscribed blocked urgent archived gift insured fragile refundable public member newsletter premium trial confirmed returned available".split(), rng.randint(1, 3))
    state = {k: rng.random() < 0.5 for k in keys}
    texts = {"color": slots.COLORS, "day": slots.DAYS, "city": slots.CITIES, "month": slots.MONTHS, "job": slots.JOBS, "company": slots.COMPANIES, "room": slots.ROOMS}
    t = rng.choice(list(texts))
    state[t] = rng.choice(texts[t])
    n = rng.choice(("quantity", "visits", "points", "speed", "weight", "price", "distance", "guests", "pages", "errors"))
    state[n] = rng.randint(0, 500)
    empty = rng.choice(("comment", "note", "reason", "reply", "coupon", "attachment"))
    has = rng.random() < 0.5
    state[empty] = slots.word(rng) if has else rng.choice(EMPTY)
    items = list(state.items())
    rng.shuffle(items)
    state = dict(items)
    k = rng.choice(keys)
    limit = rng.choice((10, 50, 100, 200, 300))
    asked = [
        yes_no(rng, rng.choice((f"Is it {k}?", f"{k}", f"Is {k} true?", f"Is the record {k}?")), state[k]),
        yes_no(rng, f"Is it not {k}?", not state[k], 0.93),
        pick(rng, rng.choice((f"What is the {t}?", f"{t}", f"Which {t}?")), t, state[t], some(rng, texts[t], 4)),
        yes_no(rng, rng.choice((f"Is there a {empty}?", f"Was a {empty} given?", f"Is the {empty} filled in?")), has),
        yes_no(rng, rng.choice((f"Is the {empty} empty?", f"Is the {empty} missing?")), not has)]
    if state[n] != limit:
        asked.append(yes_no(rng, rng.choice((f"Is the {n} above {limit}?", f"Is {n} more than {limit}?")), state[n] > limit, 0.92))
        asked.append(yes_no(rng, f"Is the {n} below {limit}?", state[n] < limit, 0.92))
    if rng.random() < 0.3:
        state = "\n".join(f"{k}: {('yes' if v else 'no') if isinstance(v, bool) else (v or '-')}" for k, v in state.items())
    return state, asked


def climate(rng):
    t = rng.randint(-20, 40)
    rain = rng.random() < 0.5
    state = {"temperature_c": t, rng.choice(("rain", "snow") if t < 3 else ("rain",)): rain, "wind": rng.choice(("none", "weak", "strong"))}
    return state, [
        yes_no(rng, rng.choice(("Is it freezing?", "Is it below zero?", "Is there frost?")), t < 0, 0.95),
        yes_no(rng, rng.choice(("Is it hot?", "Is it very warm?")), t > 27, 0.9) if not 20 < t <= 27 else yes_no(rng, "Is it windy?", state["wind"] == "strong", 0.9),
        yes_no(rng, rng.choice(("Is it dry?", "Is there no rain or snow?")), not rain, 0.92),
        pick(rng, rng.choice(("Which season does it look like?", "Season")), "season", "winter" if t < 5 else "summer", ["winter", "summer"]) if t < 2 or t > 24 else yes_no(rng, "Is the wind strong?", state["wind"] == "strong"),
        pick(rng, rng.choice(("What should one wear?", "Clothes")), "clothes", "thick coat" if t < 5 else "t-shirt" if t > 24 else "light jacket", ["thick coat", "t-shirt", "light jacket"]),
        asking.score(rng, rng.choice(("How warm is it?", "Temperature")), ["cold", "mild", "hot"], min(1, max(0, (t + 2) / 34)))]


def leave(rng):
    left, want = rng.randint(0, 25), rng.randint(1, 20)
    kind = rng.choice(("vacation", "sick leave", "training"))
    state = {"employee": slots.name(rng), "days_requested": want, "days_left": left, "type": kind}
    if left == want:
        return state, []
    return state, [
        yes_no(rng, rng.choice(("Are enough days left?", "Can the request be approved?", "Does the employee have enough days?")), left >= want, 0.88),
        yes_no(rng, rng.choice(("Are too many days requested?", "Must the request be refused?")), left < want, 0.85),
        pick(rng, rng.choice(("What kind of leave?", "What is requested?")), "kind", kind, ["vacation", "sick leave", "training", "a pay rise"])]


def trip(rng):
    status = rng.choice(("on time", "delayed", "cancelled"))
    total = rng.randint(30, 300)
    done = rng.choice((0, total, rng.randint(1, total - 1)))
    state = {rng.choice(("flight", "train", "ferry")): f"{rng.choice('ABCDT')}{rng.randint(10, 999)}", "from": rng.choice(slots.CITIES), "to": rng.choice(slots.CITIES), "status": status, "passengers": total, "rebooked": 0 if status == "on time" else done}
    return state, [
        yes_no(rng, rng.choice(("Was it cancelled?", "Is the trip cancelled?")), status == "cancelled"),
        yes_no(rng, rng.choice(("Is it on time?", "Is everything going to plan?", "punctual")), status == "on time"),
        yes_no(rng, rng.choice(("Have all passengers been rebooked?", "Does everybody have a new seat?")), done == total and status != "on time", 0.9),
        pick(rng, rng.choice(("Status", "What happened to the trip?")), "status", status, ["on time", "delayed", "cancelled"]),
        pick(rng, "Where does it go?", "destination", state["to"], some(rng, [c for c in slots.CITIES if c != state["from"]], 3))]


MAKERS = [order, order, risk, form, form, age, stock, server, server, ticket, invoice, flags, flags, generic, generic, generic, climate, leave, trip]


class Fields:
    def make(self, rng, examples=()):
        state, asked = rng.choice(MAKERS)(rng)
        asked = [a for a in asked if a]
        rng.shuffle(asked)
        if isinstance(state, dict) and rng.random() < 0.05:
            state = [state]
        return state, asked[: rng.choice((2, 3, 4, 5))]
