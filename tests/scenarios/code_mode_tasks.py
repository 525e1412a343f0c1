"""Thirty tasks over the tools of a small shop, each as a model does it with tool calls, and as one program.

`steps` are the calls that a model makes, message by message; `combine` is what it concludes from their outputs. `program` makes the
same with `tools`, and its last expression is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from clicket import tool

__all__ = ["SHOP", "TASKS", "Task"]

Call = tuple[str, dict[str, Any]]
Got = Callable[..., Any]

_GOODS = {
    "tea": (250, 10, "leaf"),
    "milk": (100, 0, "dairy"),
    "bread": (320, 4, "oven"),
    "rice": (180, 120, "leaf"),
    "salt": (50, 40, "mine"),
    "ink": (700, 3, "press"),
}
_ORDERS = {
    "ann": [{"item": "tea", "count": 2}, {"item": "salt", "count": 1}],
    "bob": [{"item": "ink", "count": 1}],
    "cy": [{"item": "rice", "count": 5}, {"item": "bread", "count": 2}, {"item": "tea", "count": 1}],
    "dee": [],
}
_CITIES = {"ann": "Oslo", "bob": "Lima", "cy": "Oslo", "dee": "Rome"}
_RATES = {"usd": 1.1, "gbp": 0.85, "nok": 11.5}
_DAYS = {"leaf": 3, "dairy": 1, "oven": 1, "mine": 9, "press": 14}


@tool(read_only=True)
async def items() -> list[str]:
    """Names of all goods."""
    return list(_GOODS)


@tool(read_only=True)
async def price(item: str) -> int:
    """Price of an item in cents."""
    return _GOODS[item][0]


@tool(read_only=True)
async def stock(item: str) -> int:
    """How many of an item there are."""
    return _GOODS[item][1]


@tool(read_only=True)
async def supplier(item: str) -> dict[str, Any]:
    """Who delivers an item, and in how many days."""
    name = _GOODS[item][2]
    return {"name": name, "days": _DAYS[name]}


@tool(read_only=True)
async def orders(customer: str) -> list[dict[str, Any]]:
    """What a customer ordered."""
    return _ORDERS[customer]


@tool(read_only=True)
async def customers(city: str | None = None) -> list[str]:
    """Names of the customers, of one city or all."""
    return [name for name, lives in _CITIES.items() if city in (None, lives)]


@tool(read_only=True)
def rate(currency: str) -> float:
    """How much of a currency is one euro."""
    return _RATES[currency]


SHOP = [items, price, stock, supplier, orders, customers, rate]


class Task(msgspec.Struct, frozen=True):
    name: str
    steps: Sequence[Sequence[Call]]
    combine: Callable[[Got], Any]
    program: str


def each(tool: str, key: str, values: Sequence[str]) -> list[Call]:
    return [(tool, {key: value}) for value in values]


ALL = list(_GOODS)
ITEMS: list[Call] = [("items", {})]
NAMES: list[Call] = [("customers", {})]


def error_of(got: Got, tool: str, **arguments: Any) -> str:
    try:
        return str(got(tool, **arguments))
    except KeyError as error:
        return str(error.args[0])


TASKS = [
    Task("one price", [[("price", {"item": "tea"})]], lambda g: g("price", item="tea"), "tools.price(item='tea')"),
    Task("the list of goods", [ITEMS], lambda g: g("items"), "tools.items()"),
    Task(
        "a sum of two",
        [each("price", "item", ["tea", "ink"])],
        lambda g: g("price", item="tea") + g("price", item="ink"),
        "tools.price(item='tea') + tools.price(item='ink')",
    ),
    Task(
        "a sum over all",
        [ITEMS, each("price", "item", ALL)],
        lambda g: sum(g("price", item=i) for i in ALL),
        "sum(tools.price(item=i) for i in tools.items())",
    ),
    Task(
        "the dearest",
        [ITEMS, each("price", "item", ALL)],
        lambda g: max(ALL, key=lambda i: g("price", item=i)),
        "max(tools.items(), key=lambda i: tools.price(item=i))",
    ),
    Task(
        "the cheapest",
        [ITEMS, each("price", "item", ALL)],
        lambda g: min(ALL, key=lambda i: g("price", item=i)),
        "prices = {i: tools.price(i) for i in tools.items()}\nmin(prices, key=prices.get)",
    ),
    Task(
        "what is sold out",
        [ITEMS, each("stock", "item", ALL)],
        lambda g: [i for i in ALL if g("stock", item=i) == 0],
        "[i for i in tools.items() if tools.stock(item=i) == 0]",
    ),
    Task(
        "the value of the stock",
        [ITEMS, each("stock", "item", ALL), each("price", "item", ALL)],
        lambda g: sum(g("stock", item=i) * g("price", item=i) for i in ALL),
        "sum(tools.stock(item=i) * tools.price(item=i) for i in tools.items())",
    ),
    Task(
        "sorted by price",
        [ITEMS, each("price", "item", ALL)],
        lambda g: sorted(ALL, key=lambda i: g("price", item=i)),
        "sorted(tools.items(), key=lambda i: tools.price(item=i))",
    ),
    Task(
        "under two euros",
        [ITEMS, each("price", "item", ALL)],
        lambda g: [i for i in ALL if g("price", item=i) < 200],
        "[i for i in tools.items() if tools.price(item=i) < 200]",
    ),
    Task(
        "one customer's bill",
        [[("orders", {"customer": "ann"})], each("price", "item", ["tea", "salt"])],
        lambda g: sum(o["count"] * g("price", item=o["item"]) for o in g("orders", customer="ann")),
        "sum(o['count'] * tools.price(item=o['item']) for o in tools.orders(customer='ann'))",
    ),
    Task(
        "an empty bill",
        [[("orders", {"customer": "dee"})]],
        lambda g: sum(o["count"] for o in g("orders", customer="dee")),
        "sum(o['count'] for o in tools.orders(customer='dee'))",
    ),
    Task(
        "every bill",
        [
            NAMES,
            each("orders", "customer", list(_ORDERS)),
            each("price", "item", ["tea", "salt", "ink", "rice", "bread"]),
        ],
        lambda g: {
            c: sum(o["count"] * g("price", item=o["item"]) for o in g("orders", customer=c)) for c in g("customers")
        },
        "{c: sum(o['count'] * tools.price(item=o['item']) for o in tools.orders(customer=c)) for c in tools.customers()}",
    ),
    Task(
        "the best customer",
        [NAMES, each("orders", "customer", list(_ORDERS))],
        lambda g: max(g("customers"), key=lambda c: sum(o["count"] for o in g("orders", customer=c))),
        "max(tools.customers(), key=lambda c: sum(o['count'] for o in tools.orders(customer=c)))",
    ),
    Task(
        "customers of a city",
        [[("customers", {"city": "Oslo"})]],
        lambda g: g("customers", city="Oslo"),
        "tools.customers(city='Oslo')",
    ),
    Task(
        "a city's orders",
        [[("customers", {"city": "Oslo"})], each("orders", "customer", ["ann", "cy"])],
        lambda g: [o["item"] for c in g("customers", city="Oslo") for o in g("orders", customer=c)],
        "[o['item'] for c in tools.customers(city='Oslo') for o in tools.orders(customer=c)]",
    ),
    Task(
        "a city without customers",
        [[("customers", {"city": "Bonn"})]],
        lambda g: len(g("customers", city="Bonn")),
        "len(tools.customers(city='Bonn'))",
    ),
    Task(
        "a price in dollars",
        [[("price", {"item": "ink"}), ("rate", {"currency": "usd"})]],
        lambda g: round(g("price", item="ink") * g("rate", currency="usd")),
        "round(tools.price(item='ink') * tools.rate(currency='usd'))",
    ),
    Task(
        "a price in three currencies",
        [[("price", {"item": "tea"}), *each("rate", "currency", list(_RATES))]],
        lambda g: {c: round(g("price", item="tea") * g("rate", currency=c), 2) for c in _RATES},
        "cents = tools.price(item='tea')\n{c: round(cents * tools.rate(currency=c), 2) for c in ('usd', 'gbp', 'nok')}",
    ),
    Task(
        "all prices at once",
        [ITEMS, each("price", "item", ALL)],
        lambda g: {i: g("price", item=i) for i in ALL},
        "import asyncio\nnames = tools.items().result()\n"
        "dict(zip(names, await asyncio.gather(*(tools.price(item=i) for i in names))))",
    ),
    Task(
        "prices and stocks at once",
        [each("price", "item", ["tea", "rice"]), each("stock", "item", ["tea", "rice"])],
        lambda g: [[g("price", item=i), g("stock", item=i)] for i in ("tea", "rice")],
        "import asyncio\n"
        "async def both(i):\n    async with asyncio.TaskGroup() as group:\n"
        "        found = group.create_task(tools.price(item=i)), group.create_task(tools.stock(item=i))\n"
        "    return [each.result() for each in found]\n"
        "[await both('tea'), await both('rice')]",
    ),
    Task(
        "threads",
        [ITEMS, each("stock", "item", ALL)],
        lambda g: [g("stock", item=i) for i in ALL],
        "from concurrent.futures import ThreadPoolExecutor\nnames = tools.items()\n"
        "with ThreadPoolExecutor(4) as pool:\n    found = list(pool.map(lambda i: tools.stock(item=i), names))\nfound",
    ),
    Task(
        "an unknown item",
        [[("price", {"item": "gold"})]],
        lambda g: error_of(g, "price", item="gold"),
        "try:\n    answer = tools.price(item='gold')\nexcept ToolError as error:\n    answer = error.code\nanswer",
    ),
    Task(
        "a wrong argument",
        [[("price", {"name": "tea"})]],
        lambda g: error_of(g, "price", name="tea"),
        "try:\n    answer = tools.price(name='tea')\nexcept ToolError as error:\n    answer = error.code\nanswer",
    ),
    Task(
        "known among unknown",
        [each("price", "item", ["tea", "gold", "ink"])],
        lambda g: {i: error_of(g, "price", item=i) for i in ("tea", "gold", "ink")},
        "found = {}\nfor i in ('tea', 'gold', 'ink'):\n    try:\n        found[i] = str(tools.price(item=i))\n"
        "    except ToolError as error:\n        found[i] = error.code\nfound",
    ),
    Task(
        "who delivers what",
        [ITEMS, each("supplier", "item", ALL)],
        lambda g: {
            s: [i for i in ALL if g("supplier", item=i)["name"] == s]
            for s in sorted({g("supplier", item=i)["name"] for i in ALL})
        },
        "by = {}\nfor i in tools.items():\n    by.setdefault(tools.supplier(item=i)['name'], []).append(i)\n"
        "{name: by[name] for name in sorted(by)}",
    ),
    Task(
        "the slowest delivery",
        [ITEMS, each("supplier", "item", ALL)],
        lambda g: max(g("supplier", item=i)["days"] for i in ALL),
        "max(tools.supplier(item=i)['days'] for i in tools.items())",
    ),
    Task(
        "what to order again",
        [ITEMS, each("stock", "item", ALL), each("supplier", "item", ["milk", "bread", "ink"])],
        lambda g: {i: g("supplier", item=i)["days"] for i in ALL if g("stock", item=i) < 5},
        "{i: tools.supplier(item=i)['days'] for i in tools.items() if tools.stock(item=i) < 5}",
    ),
    Task(
        "can an order be filled",
        [[("orders", {"customer": "cy"})], each("stock", "item", ["rice", "bread", "tea"])],
        lambda g: all(g("stock", item=o["item"]) >= o["count"] for o in g("orders", customer="cy")),
        "all(tools.stock(item=o['item']) >= o['count'] for o in tools.orders(customer='cy'))",
    ),
    Task(
        "stop at the first",
        [ITEMS, each("stock", "item", ["tea", "milk"])],
        lambda g: next(i for i in ALL if i in ("tea", "milk") and g("stock", item=i) == 0),
        "next(i for i in tools.items() if tools.stock(item=i) == 0)",
    ),
]
