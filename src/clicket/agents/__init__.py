"""Agents: a deterministic loop around a model. A turn always ends, is durable, leaves no tool call without a result, can be followed
and stopped from any process, and continues after a crash.

    agent = ReActAgent(rt, model, max_steps=20, system="…")
    r = await agent.run("question", thread="t1")                     # r.text r.state r.stopped r.steps r.usage r.messages
    async for event in agent.stream("next question", thread="t1"): ...

An agent of your own is `Agent` with a drive: a coroutine function that takes a `Turn` and returns how it ended.

    react, plan_execute         `ReActAgent`, `PlanExecuteAgent`, and their loops
    agent_options               the options that both share
    agent, turn_tool            `Agent`: run, follow, stop and read turns; the tool whose calls are turns
    identity                    what an agent may do, as it is recorded with each turn
    turn, turn_lifecycle        one running turn; its states from begin to end
    model_step, tool_step       ask the model and record its reply; run its tool calls and record their results
    handoff                     handing a turn over to another agent
    middleware, chain           what surrounds requests and tool calls; its methods in their order
    check, checking             one rule about messages, answers, calls and results; running those of an agent
    fact_memory, facts          `Memory`: what a model remembers about its caller; the facts in the store
    todo                        `Todo`: a model's list of steps
    built_in_checks             `pii`, `max_length`, `no_urls_outside`
    check_tool, questions       how a check asks a person
    verdicts                    what middleware and checks decide
    decisions, decision_words   what middleware has decided in a turn; decisions in words
    model_request, model_chain  one request to one model; to several models, one after the other
    model_holds                 which models are held, shared through the store
    model_spend                 what requests to models cost: reserved, settled, counted
    user_message                what a person sends: a text, or texts with images and files
    attached_files              the bytes of images and files in a request
    context_window, read_result requests that fit the model; reading on in a long result
    entries, event_feed         recorded entries as events; live events of this process
    background                  background calls, whose results enter a later step or turn
    background_tools            tools to list and cancel them
    event_stream                recorded, then live events of a thread
    pieces, piece_cursor        pieces of answers in the store; how far a reader has come in them
    threads, memory             turns of a thread; their documents in the store, and a cache
    thread_retention            removal of idle threads
    fork, origin                forks of threads; where one comes from
    fork_sweep                  removal of those that were never whole
    past_entries, turn_cut      entries that forks took along; a turn up to a step
    forked_turn                 the first turn of a fork
    cut_turn_start              begins one that goes on after a step
    again, rerun                that a turn is another one, run again; the calls of that one
    recorded_calls              their outcomes, for equal calls
    turn_on_record              entries of a turn, wherever they are
    subagents                   an agent as a tool of another
    task_threads                names of the threads in which agents work on tasks of others
    mailbox, turn_start         messages that wait for a turn; how turns begin
    open_calls                  ends the calls of a turn that is stopped
    undo_turn, undone           undoing the calls of a turn that ends badly; what the next turn reads of it
    outages                     turns wait while the store does not answer
    run_options                 options of one run
    plan, transcript            steps of a plan; messages in which each call has its result
    sensitive_values            masking of sensitive arguments
    skills                      instructions that a model loads when it needs them
    workspace                   files of one folder, and commands in the sandbox
    agent_parts                 tools that only turns of agents can call
    output                      what an answer must be: schemas of types, and values from a model's text
    typed_answers               asks for answers of the turn's type, and reads them
    turn_limits, stopwatch      limits and counters of a turn; the time that its tools run
    agent_result, task_waits    results and events for callers; waiting for tasks
"""

from __future__ import annotations

from clicket.agents.agent import Agent
from clicket.agents.agent_result import AgentEvent, AgentResult, Sent, ThreadView
from clicket.agents.built_in_checks import max_length, no_urls_outside, pii
from clicket.agents.check import Check
from clicket.agents.context_window import ContextWindow
from clicket.agents.fact_memory import Memory
from clicket.agents.handoff import Handoff
from clicket.agents.mailbox import QueuedMessage
from clicket.agents.memory import Page, TurnDocument
from clicket.agents.middleware import Middleware
from clicket.agents.model_step import Thinker
from clicket.agents.origin import Fork, Origin
from clicket.agents.plan import Plan, Step
from clicket.agents.plan_execute import PlanExecuteAgent
from clicket.agents.react import Loop, ReActAgent
from clicket.agents.skills import Skills
from clicket.agents.todo import Todo, TodoItem, todo_of
from clicket.agents.tool_step import Actor
from clicket.agents.turn import Turn, TurnHandedOver, TurnStopped
from clicket.agents.turn_lifecycle import Drive
from clicket.agents.turn_limits import Limits, Stopped
from clicket.agents.user_message import Message, UserMessage
from clicket.agents.verdicts import Ask, Change, Edit, Pass, Refuse
from clicket.agents.workspace import Workspace
from clicket.errors import AgentBusy
from clicket.kernel import AgentState

__all__ = [
    "Actor",
    "Agent",
    "AgentBusy",
    "AgentEvent",
    "AgentResult",
    "AgentState",
    "Ask",
    "Change",
    "Check",
    "ContextWindow",
    "Drive",
    "Edit",
    "Fork",
    "Handoff",
    "Limits",
    "Loop",
    "Memory",
    "Message",
    "Middleware",
    "Origin",
    "Page",
    "Pass",
    "Plan",
    "PlanExecuteAgent",
    "QueuedMessage",
    "ReActAgent",
    "Refuse",
    "Sent",
    "Skills",
    "Step",
    "Stopped",
    "Thinker",
    "ThreadView",
    "Todo",
    "TodoItem",
    "Turn",
    "TurnDocument",
    "TurnHandedOver",
    "TurnStopped",
    "UserMessage",
    "Workspace",
    "max_length",
    "no_urls_outside",
    "pii",
    "todo_of",
]
