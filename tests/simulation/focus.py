"""Every other seed turns to one rare combination: what must be there for it is there, and faults are armed at the moments that matter.

Without it a moment that needs four things at once would come once in thousands of seeds. Everything else of such a seed is drawn as ever.
"""

from __future__ import annotations

import random
from typing import NamedTuple

__all__ = ["FOCUSES", "Focus", "armed_in", "focus_of"]

_SHARE = 0.5


class Focus(NamedTuple):
    name: str
    on: str = ""
    """Features that are on; `off`: that are not (`features.py`)."""
    off: str = ""
    tools: str = ""
    """Most calls are of these."""
    arms: str = ""
    """Moments and what they bring (`moments.py`), as "moment: act; moment: act". Each is armed several times."""
    store: str = ""
    """"model", "sqlite" or "disk"; empty: any."""
    members: tuple[int, ...] = ()
    quiet: bool | None = None
    """Nothing fails; None: as drawn."""
    agents: bool | None = None
    schedule: bool = False
    gives_away: bool = False
    """The first process leaves its calls to others."""
    people_away: bool = False
    durability: str = ""
    disk: tuple[str, ...] = ()
    """What befalls the disk, in place of anything."""
    queue_timeout: float = 20.0
    equal: int = 0
    """How many equal calls come at once; 0: as drawn."""
    deadlines: bool = False
    """Most calls have a deadline."""
    plans: bool = False
    """Most messages go to the planner."""
    late: float = 0.0
    """How many of the network's messages are late, and how many answers are lost (`unheard`)."""
    unheard: float = 0.0
    slow_people: bool = False
    """People look at a question for longer than a process takes to die and be replaced."""
    broad_grants: bool = False
    """People grant for all arguments, threads and callers."""
    watched: bool = False
    """Somebody reads the events of most calls."""
    script: str = ""
    """What models ask for: "batches", whose calls are equal, so that they end at once; "jobs" in the background, and steps beside them; of
    clerks, to remember "facts", or to hand their turns over ("hands")."""


FOCUSES = (
    Focus("callers leave", on="moments",
        arms="answer: caller leaves at once; answer: caller leaves at once; answer: caller leaves at once", store="sqlite", quiet=True,
        agents=False),
    Focus("ends of turns", off="budgets", agents=True, store="model", members=(1, 2),
        arms="document agent.turn: crash; document agent.thread: crash; answer agent.turn: crash; append entry ended: crash"),
    Focus("cancelled in doubt", tools="checked", arms="effect: crash and cancel; check: cancel; body: crash and cancel", members=(1, 2),
        agents=False),
    Focus("lost answers", on="questions", off="grants", tools="asking",
        arms="unheard waits for approval: cut and decide at once; unheard waits for approval: cut and decide at once; "
        "unheard waits for approval: cut and decide at once; unheard attempt_started: cut and cancel at once",
        store="model", members=(2, 3), agents=False, unheard=0.3),
    Focus("put away", on="later", arms="answer waits for time: cut; answer waits for time: cut", store="model", agents=False),
    Focus("claimed at once", on="bursts", tools="pay put", arms="append created: cancel; claim: pause", store="model", members=(2, 3, 4),
        agents=False, gives_away=True),
    Focus("fences", tools="pay put stream", arms="body: away; claimed: swap at once; effect: away; claimed: swap at once", store="sqlite",
        members=(2, 3), agents=False),
    Focus("back and forth", off="grants", tools="approved", arms="append waits for approval: away; claim: away", store="model",
        members=(2,), agents=False),
    Focus("nobody claims", on="bursts", off="operators moments", tools="narrow", members=(2, 3), quiet=True, agents=False, gives_away=True,
        equal=8, deadlines=True),
    Focus("answers cross", on="questions crossings", tools="asking",
        arms="append waits for approval: cross; append waits for approval: cross; append waits for approval: cross", store="model",
        members=(2, 3), agents=False, late=0.3),
    Focus("grants", on="grants bursts", tools="approved", equal=6, broad_grants=True,
        arms="document approval_grant: crash; document approval_grant: cancel; answer approval_grant: crash", store="model",
        members=(1, 2), agents=False),
    Focus("results cross", on="crossings", tools="order order_twice", arms="answer closed: complete; append closed: complete",
        store="model", members=(1, 2), quiet=True, agents=False),
    Focus("tokens", on="crossings", tools="order_twice", agents=False),
    Focus("equal calls", on="bursts", off="moments operators", tools="look_up", quiet=True, agents=False, equal=8),
    Focus("waits hold nothing", on="bursts questions", off="operators moments", tools="order asking put rated", members=(1,), quiet=True,
        agents=False, people_away=True),
    Focus("rates", on="bursts", tools="seldom rated", arms="hold: outage; hold: outage", store="model", members=(4, 5), agents=False,
        equal=20),
    Focus("rates in quiet", on="bursts", off="operators moments", tools="rated", members=(1, 2), quiet=True, agents=False, equal=10),
    Focus("short waits", on="bursts", off="operators moments", tools="rated", members=(1,), quiet=True, agents=False, queue_timeout=3.0,
        equal=30),
    Focus("full queues", on="bursts short_queue", tools="approved", members=(1,), agents=False, equal=30,
        arms="append created: decide at once; append created: decide at once; append created: decide at once"),
    Focus("firing", on="moments", arms="document schedule: crash; document schedule: cut; answer schedule: crash", store="model",
        agents=False, schedule=True),
    Focus("costs", on="costs", tools="costly",
        arms="append ends: crash; append spend: crash; document spend: crash; effect: crash and cancel", agents=False),
    Focus("spending", on="budgets", arms="document budget: crash; append entry reply: crash; document spend: crash", members=(1, 2),
        agents=True),
    Focus("raises", on="budgets", agents=True, store="model", members=(1, 2),
        arms="append starts raise_budget: crash later; append starts raise_budget: crash later"),
    Focus("turns", off="stops",
        arms="append entry reply: crash; append entry results: crash; append entry ended: pause; document agent.turn: crash; "
        "document agent.thread: crash",
        store="model", members=(1, 2), agents=True),
    Focus("lost turns", arms="append entry reply: pause; append entry ended: pause; model: pause", store="model", members=(2, 3),
        agents=True),
    Focus("stops", on="stops", arms="append entry reply: crash and stop; model: crash and stop; body: crash and stop; model: stop",
        members=(1, 2), agents=True),
    Focus("closed waits", off="crossings operators", tools="order order_twice", store="model", members=(1, 2), quiet=True, agents=False,
        people_away=True, arms="answer closed: complete; append closed: complete; answer closed: complete"),
    Focus("outages of plans", off="refusals budgets stops", arms="model: outage; append entry reply: cut", store="model", agents=True,
        plans=True),
    Focus("background", on="background", off="budgets refusals", arms="append entry reply: crash; append entry news: crash", store="model",
        agents=True, script="jobs"),
    Focus("background in quiet", on="background refusals", off="budgets stops moments", quiet=True, agents=True),
    Focus("batches", quiet=True, agents=True, script="batches"),
    Focus("clerks", on="clerks", off="refusals",
        arms="append entry decision: crash; append entry reply: crash; append entry heard: crash; append entry held: crash; "
        "append entry tried: crash",
        store="model", members=(1, 2), agents=True),
    Focus("clerks in quiet", on="clerks", off="moments refusals", members=(1, 2), quiet=True, agents=True),
    Focus("queues", on="clerks",
        arms="document agent.queue: crash; answer agent.queue: crash; append entry begun: crash; append entry heard: crash; "
        "append entry ended: crash",
        store="model", members=(2, 3), agents=True),
    Focus("queues on a file", on="clerks stops", store="sqlite", members=(1, 2), agents=True),
    Focus("facts", on="clerks",
        arms="document agent.memory: crash; document agent.memory: crash; append entry decision: crash", store="model",
        members=(1, 2, 3), agents=True, script="facts"),
    Focus("handoffs", on="clerks", off="budgets refusals stops",
        arms="append entry handoff: crash; append entry handoff: crash; append entry handoff: crash", store="model",
        members=(1, 2), agents=True, script="hands"),
    Focus("locks", tools="put pay", store="disk", disk=("locked file",)),
    Focus("full disks", store="disk", agents=True, disk=("full disk",)),
    Focus("power", store="disk", agents=False, durability="power", disk=("power loss", "failed write", "failed sync")),
    Focus("people at servers", on="servers hesitations", tools="guarded", arms="body: crash; effect: crash", members=(2, 3), agents=False,
        slow_people=True),
    Focus("readers at servers", on="servers", off="moments", tools="stream put", members=(1,), quiet=True, agents=False, watched=True),
    Focus("credentials", on="credentials", off="operators moments", tools="with_key", members=(2, 3), quiet=True, agents=False),
    Focus("drains", on="operators bursts", tools="narrow put", members=(2, 3), store="model", agents=False, equal=8,
        arms="append created: drain; append created: drain; append created: drain"),

)  # fmt: skip


def armed_in(focus: Focus) -> list[tuple[str, str]]:
    """The moment and the act of each."""
    return [(moment, act) for moment, _, act in (each.partition(": ") for each in focus.arms.split("; ") if each)]


def focus_of(seed: int) -> Focus | None:
    """Each focus bids for the seed, and the highest bid has it: a new one takes its share, and leaves the other seeds as they are."""
    if random.Random(f"focus of {seed}").random() >= _SHARE:
        return None
    return max(FOCUSES, key=lambda focus: random.Random(f"{focus.name} for {seed}").random())
