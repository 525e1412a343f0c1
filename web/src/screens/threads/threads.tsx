// The list of threads beside one of them.
import { useEffect, useState } from "preact/hooks";
import { json } from "../../api/client";
import type { AgentList } from "../../api/types";
import { t, word } from "../../i18n";
import { subscribe } from "../../model/feed";
import { loadThreads, type Thread } from "../../model/threads";
import { go, link, route } from "../../router";
import { may } from "../../session";
import { Empty, Failure } from "../../ui/empty";
import { Icon } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import { Ago } from "../../ui/time";
import { ThreadView } from "./thread";

export function ThreadsScreen() {
  const chosen = route.value.path[1];
  const caller = route.value.query.get("caller") ?? "";
  const asked = route.value.query.get("agent") ?? "";
  const { value, error, reload } = useLoaded(loadThreads, []);
  const agents = useLoaded(() => json<AgentList>("/agents"), []).value.value?.items ?? [];
  useEffect(() => {
    let timer = 0;
    const soon = () => { timer ||= setTimeout(() => { timer = 0; void reload(); }, 2_000); };
    const unsubscribe = subscribe({ onEvents: (events) => { if (events.some((event) => event.type === "created" || event.type === "state_changed")) soon(); }, onGap: soon });
    return () => { clearTimeout(timer); unsubscribe(); };
  }, []);
  const threads = value.value ?? [];
  const known = threads.find((each) => each.name === chosen && each.caller === caller);
  useEffect(() => {
    if (chosen !== undefined && value.peek() && !known) void reload(); // a fork has no call that would announce it
  }, [chosen]);
  return (
    <div class="split" data-chosen={chosen !== undefined}>
      <section class="split-list" aria-label={t("threads.title")}>
        <header class="page-head">
          <div class="title"><h1>{t("threads.title")}</h1><span class="count">{threads.length}</span></div>
          {agents.length > 0 && may("call") && <NewThread />}
        </header>
        <Failure text={error.value} />
        {value.value && !threads.length && <Empty>{t("threads.none")}</Empty>}
        <ul class="thread-list">
          {threads.map((each) => <ThreadItem key={`${each.caller}\n${each.name}`} thread={each} chosen={each === known} />)}
        </ul>
      </section>
      <section class="split-main">
        {chosen === undefined ? <Empty>{t("threads.choose")}</Empty> : <ThreadView key={`${caller}\n${chosen}`} name={chosen} caller={caller} agents={agents} agent={known?.agent || asked} />}
      </section>
    </div>
  );
}

function ThreadItem({ thread, chosen }: { thread: Thread; chosen: boolean }) {
  return (
    <li>
      <a href={link(["threads", thread.name], { caller: thread.caller })} aria-current={chosen ? "page" : undefined}>
        <span class="name">{thread.agent && <Icon name="threads" />}{thread.name}</span>
        <span class="meta">
          {thread.agent && <>{thread.agent} · {word("agent", thread.agentState)} · </>}
          {thread.calls > 0 && <>{t("threads.calls", { count: thread.calls })} · </>}
          {thread.active > 0 && <span class="live">{t("threads.active", { count: thread.active })} · </span>}
          {thread.failed > 0 && <span class="bad">{t("threads.failed", { count: thread.failed })} · </span>}
          <Ago at={thread.lastAt} />
        </span>
      </a>
    </li>
  );
}

function NewThread() {
  const [name, setName] = useState("");
  const open = (event: Event) => {
    event.preventDefault();
    go(link(["threads", name.trim() || `chat-${Date.now().toString(36)}`]));
    setName("");
  };
  return (
    <form class="inline-form" onSubmit={open}>
      <input type="text" value={name} placeholder={t("threads.newName")} aria-label={t("threads.newName")} onInput={(event) => setName(event.currentTarget.value)} />
      <button>{t("threads.new")}</button>
    </form>
  );
}
