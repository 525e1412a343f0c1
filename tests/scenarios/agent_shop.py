"""A shop and an airline with business rules, for support agents. Their state is a plain object, so that the effect of an agent can be
compared with that of the same calls made directly."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any, get_type_hints

from clicket import ToolContext, tool

__all__ = ["Call", "Shop", "Task", "direct", "made", "tasks", "tools"]

Call = tuple[str, dict[str, Any]]
Task = list[list[Call]]
"""Steps of calls. In one step, at most one call changes anything."""


class Refused(ValueError):
    """A business rule refuses."""


class Shop:
    """Prices are in cents. `log` counts every change, so a call that ran twice shows."""

    def __init__(self) -> None:
        self.users = {f"u{n}": {"balance": 20_000, "city": "Oslo", "tier": ("basic", "gold")[n % 2]} for n in range(4)}
        self.stock = {"lamp": 5, "desk": 2, "chair": 4, "rug": 0}
        self.prices = {"lamp": 1_500, "desk": 9_000, "chair": 4_000, "rug": 2_500}
        self.orders: dict[str, dict[str, Any]] = {}
        for n in range(8):
            item = ("lamp", "desk", "chair")[n % 3]
            status = ("pending", "delivered", "shipped", "delivered")[n % 4]
            self.orders[f"o{n}"] = {
                "user": f"u{n % 4}",
                "item": item,
                "count": 1 + n % 2,
                "status": status,
                "paid": n % 3 > 0,
            }
        self.flights = {
            f"f{n}": {"seats": n % 3, "price": 5_000 + 1_000 * n, "to": ("Rome", "Kyoto")[n % 2]} for n in range(6)
        }
        self.bookings: dict[str, dict[str, Any]] = {
            f"b{n}": {"user": f"u{n % 4}", "flight": f"f{n}", "bags": 0, "cabin": ("eco", "biz")[n % 2], "open": True}
            for n in range(4)
        }
        self.log: list[str] = []

    # Reading.

    def find_user(self, user: str) -> dict[str, Any]:
        """A customer."""
        return dict(self._user(user))

    def get_order(self, order: str) -> dict[str, Any]:
        """An order."""
        return dict(self._order(order))

    def search_flights(self, to: str) -> list[str]:
        """Flights to a city that have seats."""
        return [name for name, flight in self.flights.items() if flight["to"] == to and flight["seats"]]

    def get_booking(self, booking: str) -> dict[str, Any]:
        """A booking."""
        return dict(self._booking(booking))

    # The shop.

    def place_order(self, user: str, item: str, count: int) -> str:
        """Order something; returns the order's name."""
        self._user(user)
        self._take(item, count)
        name = f"o{len(self.orders)}"
        self.orders[name] = {"user": user, "item": item, "count": count, "status": "pending", "paid": False}
        self.log.append(f"place {name}")
        return name

    def pay_order(self, order: str) -> int:
        """Pay an order from the customer's balance; returns what is left."""
        found = self._order(order)
        if found["paid"]:
            raise Refused(f"{order} is paid already")
        left = self._charge(found["user"], self.prices[found["item"]] * found["count"])
        found["paid"] = True
        self.log.append(f"pay {order}")
        return left

    def cancel_order(self, order: str, reason: str = "") -> str:
        """Cancel an order that was not shipped, and give the money back."""
        found = self._order(order)
        if found["status"] != "pending":
            raise Refused(f"{order} is {found['status']}: only pending orders can be cancelled")
        found["status"] = "cancelled"
        self.stock[found["item"]] += found["count"]
        if found["paid"]:
            self.users[found["user"]]["balance"] += self.prices[found["item"]] * found["count"]
        self.log.append(f"cancel {order}")
        return f"{order} is cancelled"

    def return_items(self, order: str, count: int) -> int:
        """Return some of a delivered order for store credit; returns how many are left."""
        found = self._order(order)
        if found["status"] != "delivered" or not 1 <= count <= found["count"]:
            raise Refused(f"{order}: {count} of {found['count']} cannot be returned while it is {found['status']}")
        found["count"] -= count
        found["status"] = "delivered" if found["count"] else "returned"
        self.users[found["user"]]["balance"] += self.prices[found["item"]] * count
        self.log.append(f"return {order}")
        return int(found["count"])

    def exchange_item(self, order: str, item: str) -> int:
        """Exchange what was delivered for something else; returns the difference that was paid."""
        found = self._order(order)
        if found["status"] != "delivered" or found["item"] == item:
            raise Refused(f"{order} cannot be exchanged for {item}")
        self._take(item, found["count"])
        difference = (self.prices[item] - self.prices[found["item"]]) * int(found["count"])
        try:
            self._charge(found["user"], difference)
        except Refused:
            self.stock[item] += found["count"]
            raise
        self.stock[found["item"]] += found["count"]
        found["item"] = item
        self.log.append(f"exchange {order}")
        return difference

    def change_address(self, user: str, city: str) -> str:
        """Move a customer."""
        self._user(user)["city"] = city
        self.log.append(f"move {user}")
        return city

    # The airline.

    def book_flight(self, user: str, flight: str, bags: int = 0) -> str:
        """Book a seat; returns the booking's name."""
        found = self._flight(flight)
        if not found["seats"]:
            raise Refused(f"{flight} is full")
        self._charge(user, found["price"] + self._bags(user, bags))
        found["seats"] -= 1
        name = f"b{len(self.bookings)}"
        self.bookings[name] = {"user": user, "flight": flight, "bags": bags, "cabin": "eco", "open": True}
        self.log.append(f"book {name}")
        return name

    def cancel_booking(self, booking: str) -> int:
        """Cancel a booking; returns the refund."""
        found = self._booking(booking)
        if not found["open"]:
            raise Refused(f"{booking} is cancelled already")
        refund = self._flight(found["flight"])["price"] if found["cabin"] == "biz" else 0
        found["open"] = False
        self.flights[found["flight"]]["seats"] += 1
        self.users[found["user"]]["balance"] += refund
        self.log.append(f"cancel {booking}")
        return int(refund)

    def add_baggage(self, booking: str, bags: int) -> int:
        """Add bags to a booking; returns how many there are."""
        found = self._booking(booking)
        if not found["open"] or found["bags"] + bags > 3:
            raise Refused(f"{booking} takes no {bags} more bags")
        self._charge(found["user"], self._bags(found["user"], bags))
        found["bags"] += bags
        self.log.append(f"bags {booking}")
        return int(found["bags"])

    # Rules.

    def _user(self, name: str) -> dict[str, Any]:
        if name not in self.users:
            raise Refused(f"there is no customer {name}")
        return self.users[name]

    def _order(self, name: str) -> dict[str, Any]:
        if name not in self.orders:
            raise Refused(f"there is no order {name}")
        return self.orders[name]

    def _flight(self, name: str) -> dict[str, Any]:
        if name not in self.flights:
            raise Refused(f"there is no flight {name}")
        return self.flights[name]

    def _booking(self, name: str) -> dict[str, Any]:
        if name not in self.bookings:
            raise Refused(f"there is no booking {name}")
        return self.bookings[name]

    def _take(self, item: str, count: int) -> None:
        if count < 1 or self.stock.get(item, 0) < count:
            raise Refused(f"there are not {count} of {item}")
        self.stock[item] -= count

    def _charge(self, user: str, cents: int) -> int:
        found = self._user(user)
        if found["balance"] < cents:
            raise Refused(f"{user} has {found['balance']}, and {cents} are due")
        found["balance"] -= cents
        return int(found["balance"])

    def _bags(self, user: str, bags: int) -> int:
        if bags < 0:
            raise Refused("bags cannot be taken away")
        free = 1 if self._user(user)["tier"] == "gold" else 0
        return max(bags - free, 0) * 3_000

    def state(self) -> dict[str, Any]:
        return deepcopy(vars(self))


LOOKING = ("find_user", "get_order", "search_flights", "get_booking")
CHANGING = (
    "place_order", "pay_order", "cancel_order", "return_items", "exchange_item", "change_address", "book_flight",
    "cancel_booking", "add_baggage",
)  # fmt: skip


def made(shops: dict[str, Shop], name: str) -> Any:
    """A method as a tool: it works on the shop of its thread."""
    method: Callable[..., Any] = getattr(Shop, name)
    signature = inspect.signature(method)
    own = [one for one in signature.parameters.values() if one.name != "self"]

    async def run(ctx: ToolContext, **arguments: Any) -> Any:
        return getattr(shops[ctx.thread], name)(**arguments)

    ctx = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=ToolContext)
    run.__signature__ = inspect.Signature([*own, ctx])  # type: ignore[attr-defined]
    run.__annotations__ = {**get_type_hints(method), "ctx": ToolContext}
    run.__name__ = run.__qualname__ = name
    run.__doc__ = method.__doc__
    return tool(name=name, read_only=name in LOOKING, max_retries=0, failure_threshold=1_000)(run)


def tools(shops: dict[str, Shop]) -> list[Any]:
    return [made(shops, name) for name in (*LOOKING, *CHANGING)]


# Tasks.


def tasks(seed: int, count: int) -> list[Task]:
    chance = Random(seed)  # the same tasks every time, not secrets
    return [_task(chance) for _ in range(count)]


def _task(chance: Random) -> Task:
    steps: Task = []
    for _ in range(chance.randint(4, 9)):
        calls = [_call(chance, LOOKING) for _ in range(chance.choice((0, 0, 1, 2)))]
        calls.insert(chance.randint(0, len(calls)), _call(chance, CHANGING))
        steps.append(calls)
    return steps


def _call(chance: Random, names: tuple[str, ...]) -> Call:
    name = chance.choice(names)
    values: dict[str, Callable[[], Any]] = {
        "user": lambda: f"u{chance.randint(0, 4)}",
        "order": lambda: f"o{chance.randint(0, 9)}",
        "item": lambda: chance.choice(("lamp", "desk", "chair", "rug", "sofa")),
        "count": lambda: chance.choice((1, 1, 1, 2, 3, 0)),
        "flight": lambda: f"f{chance.randint(0, 6)}",
        "booking": lambda: f"b{chance.randint(0, 5)}",
        "bags": lambda: chance.choice((0, 1, 2, -1)),
        "to": lambda: chance.choice(("Rome", "Kyoto", "Nowhere")),
        "city": lambda: chance.choice(("Rome", "Bergen", "Kyoto")),
        "reason": lambda: "no longer needed",
    }
    arguments = {one: values[one]() for one in inspect.signature(getattr(Shop, name)).parameters if one != "self"}
    if chance.random() < 0.08:  # arguments that no schema accepts
        arguments[chance.choice(sorted(arguments))] = {"a": "mapping"}
    return name, arguments


def direct(task: Task) -> Shop:
    """The same calls without clicket."""
    shop = Shop()
    for step in task:
        for name, arguments in step:
            if any(isinstance(value, dict) for value in arguments.values()):
                continue  # the schema refuses it
            try:
                getattr(shop, name)(**arguments)
            except Refused:
                continue
    return shop
