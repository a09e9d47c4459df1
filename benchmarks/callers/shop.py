"""The functions of package shop as a program in Python calls them.

What they are given is the same in ../gocaller/shop.go.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from calling import Call, differs, payload_of

import nearcall

PICTURE_BYTES = 30 << 10
BEGIN = datetime(2026, 11, 1, 12, tzinfo=UTC)


def order() -> dict[str, Any]:
    lines = [
        {"sku": f"sku-{1000 + i}", "quantity": 1 + 2 * i, "unit_cents": 199 + 100 * i, "weight_kg": 0.25 * (1 + i)}
        for i in range(8)
    ]
    return {
        "customer": "c-1042",
        "country": "DE",
        "lines": lines,
        "coupon": {"code": "WINTER10", "percent": 10},
    }


def session() -> dict[str, Any]:
    return {
        "user": "u-1042",
        "visits": 41,
        "basket": ["sku-1000", "sku-1004"],
        "pages": ["/", "/lamps"],
        "preferences": {"currency": "EUR", "newsletter": True},
        "theme": "dark",
        "score": 0.75,
        "campaign": None,
    }


def event(i: int) -> dict[str, Any]:
    return {
        "kind": ("view", "view", "search", "view", "add")[i % 5],
        "at": BEGIN + i * timedelta(seconds=1.5),
        "properties": {"page": f"/p/{i % 4}", "campaign": "winter", "browser": "firefox"},
    }


def calls(call: Callable[..., Any]) -> dict[str, Call]:
    """Returns how each function is called."""
    bought, kept, events = order(), session(), [event(i) for i in range(20)]
    pixels, options = payload_of(PICTURE_BYTES), {"width": 128, "new_width": 32, "new_height": 20, "grey": False}
    history = array("d", (100.25 + i * 37 % 50 for i in range(730)))
    return {
        "price": lambda: call("price_order", bought),
        "search": lambda: call("search", "Blue Oak", 20),
        "session": lambda: call("visit", kept, "/lamps/17"),
        "events": lambda: call("summarise", events),
        "thumbnail": lambda: call("thumbnail", pixels, options),
        "forecast": lambda: call("forecast", history, 28),
    }


# What all values of an answer come to, and what that has to be.
ANSWERS: dict[str, tuple[Callable[[Any], object], object]] = {
    "price": (
        lambda a: (
            sum(line["cents"] for line in a["lines"]),
            a["discount_cents"],
            a["shipping_cents"],
            a["tax_cents"],
            a["total_cents"],
        ),
        (41959, 4195, 9225, 8927, 55916),
    ),
    "search": (
        lambda a: (
            sum(p["id"] for p in a),
            sum(p["price_cents"] + p["rating"] + p["in_stock"] for p in a),
            a[0]["name"],
            a[-1]["tags"],
        ),
        (2610, 198664.5, "blue oak box", ["oak", "table"]),
    ),
    "session": (
        lambda a: a,
        session() | {"visits": 42, "pages": ["/", "/lamps", "/lamps/17"]},
    ),
    "events": (
        lambda a: a,
        {
            "first": BEGIN,
            "last": BEGIN + timedelta(seconds=28.5),
            "kinds": {"view": 12, "search": 4, "add": 4},
            "pages": {f"/p/{i}": 5 for i in range(4)},
        },
    ),
    "thumbnail": (lambda a: (len(a), sum(a)), (1920, 244194)),
    "forecast": (
        lambda a: [
            round(number, 4)
            for number in (a["level"], a["trend"], *(sum(a[each]) for each in ("expected", "least", "most")))
        ],
        [127.3824, 0.1557, 3629.9089, 187.1861, 9088.7483],
    ),
}


def shop_subject(name: str, go: nearcall.Client) -> tuple[Call, object]:
    """Returns a way to call that function, and its answer, which was looked at as a whole."""
    call = calls(go.call)[name]
    answer = call()
    seen, wanted = ANSWERS[name][0](answer), ANSWERS[name][1]
    if seen != wanted:
        differs(seen, wanted)
    return call, answer
