// The protocol's own client, against the server at argv[2]. Each scenario prints one line of JSON: its name, and what the client has.
// The client checks every event: its form, and its place in the sequence.
import { HttpAgent } from "@ag-ui/client";

const [url, ...scenarios] = process.argv.slice(2);
let number = 0;

function agent(name, options = {}) {
  return new HttpAgent({ url: `${url}/ag-ui/${name}`, threadId: `${name}-${process.pid}-${++number}`, ...options });
}

function say(agent, text) {
  agent.addMessage({ id: `u${++number}`, role: "user", content: text });
}

async function run(agent, parameters = {}) {
  const types = [];
  const subscriber = { onEvent: ({ event }) => { types.push(event.type); } };
  const { result, newMessages } = await agent.runAgent(parameters, subscriber);
  return { types, result, newMessages };
}

function roles(agent) {
  return agent.messages.map((message) => message.role);
}

const all = {
  async plain() {
    const helper = agent("helper", { initialState: { mine: 1 } });
    say(helper, "pay 5");
    const first = await run(helper, { resume: undefined });
    return { first: first.types, pending: helper.pendingInterrupts, state: helper.state, roles: roles(helper) };
  },
  async approve() {
    const helper = agent("helper");
    say(helper, "pay 5");
    await run(helper);
    const interrupts = helper.pendingInterrupts;
    const payload = { approved: true, editedArgs: { amount: 3 } };
    const resume = interrupts.map((each) => ({ interruptId: each.id, status: "resolved", payload }));
    const second = await run(helper, { resume });
    say(helper, "and again");
    const third = await run(helper);
    return {
      interrupts, second, roles: roles(helper), left: helper.pendingInterrupts.length, third: third.types.at(-1),
      contents: helper.messages.map((message) => message.content ?? ""),
      ids: helper.messages.map((message) => message.id),
    };
  },
  async team() {
    const boss = agent("boss");
    say(boss, "go");
    const first = await run(boss);
    const resume = boss.pendingInterrupts.map((each) => ({ interruptId: each.id, status: "resolved", payload: { approved: true } }));
    const second = await run(boss, { resume });
    return { first: first.types, second, messages: boss.messages };
  },
  async twice() {
    const tailor = agent("tailor");
    say(tailor, "go");
    await run(tailor);
    const asked = [];
    let last;
    for (let size = 1; size <= 2; size++) {
      const [interrupt] = tailor.pendingInterrupts;
      asked.push(interrupt);
      const payload = { approved: true, response: { size } };
      last = await run(tailor, { resume: [{ interruptId: interrupt.id, status: "resolved", payload }] });
    }
    return { asked, result: last.result, left: tailor.pendingInterrupts.length };
  },
  async frontend() {
    const painter = agent("painter");
    say(painter, "paint");
    const tools = [{ name: "pick_colour", description: "Ask the user.", parameters: { type: "object", properties: {} } }];
    const first = await run(painter, { tools });
    const call = painter.messages.at(-1).toolCalls[0];
    painter.addMessage({ id: "x1", role: "tool", toolCallId: call.id, content: "red" });
    const second = await run(painter, { tools });
    return { first: first.types, call, second, roles: roles(painter) };
  },
  async aborted() {
    const helper = agent("helper");
    say(helper, "pay 5");
    const runId = "the-run";
    await helper.runAgent({ runId }, { onToolCallStartEvent: () => { helper.abortRun(); } });
    const again = await run(helper, { runId });
    return { again: again.types, roles: roles(helper), pending: helper.pendingInterrupts.length };
  },
};

for (const name of scenarios) {
  console.log(JSON.stringify({ name, ...(await all[name]()) }));
}
