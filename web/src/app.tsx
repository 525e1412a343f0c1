// The frame of the page: navigation, the state of the connection, and the screen that the address names.
import { effect } from "@preact/signals";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { key, locked, rememberKey } from "./api/client";
import { connection } from "./api/stream";
import { language, setLanguage, t } from "./i18n";
import { closeFeed, openFeed } from "./model/feed";
import { marked } from "./model/printable";
import { closeInbox, inboxCount, openInbox, refreshInbox } from "./model/inbox";
import { go, link, route, screen } from "./router";
import { EvalsScreen } from "./screens/evals/evals";
import { GrantsScreen } from "./screens/grants/grants";
import { InboxScreen } from "./screens/inbox/inbox";
import { KeyScreen } from "./screens/key";
import { NoticesScreen } from "./screens/notices/notices";
import { OverviewScreen } from "./screens/overview/overview";
import { RunScreen } from "./screens/run/run";
import { RunsScreen } from "./screens/runs/runs";
import { SchedulesScreen } from "./screens/schedules/schedules";
import { SpendScreen } from "./screens/spend/spend";
import { ThreadsScreen } from "./screens/threads/threads";
import { ToolsScreen } from "./screens/tools/tools";
import { begin, may, offers, principal, refusal } from "./session";
import { Dialog } from "./ui/dialog";
import { Icon, type IconName } from "./ui/icon";
import { onKey } from "./ui/keys";
import { Toasts } from "./ui/toasts";
import { nextTheme, theme } from "./ui/theme";

const SCREENS = ["runs", "inbox", "tools", "threads", "overview", "schedules", "spend", "grants", "notices", "evals"] as const;
type Screen = (typeof SCREENS)[number];

/** What a key may not read is not offered. */
function offered(name: Screen): boolean {
  if (name === "inbox") return inboxCount.value > 0 || screen.value === "inbox" || (may("approve") && !may("read"));
  if (name === "tools") return may("read") || may("call");
  if (name === "grants") return offers("GET /grants") && (may("read") || may("approve"));
  if (name === "evals") return offers("GET /evals") && may("admin");
  if (name === "notices") return offers("GET /notices") && may("admin");
  if (name === "schedules") return offers("GET /schedules") && may("read");
  if (name === "spend") return offers("GET /spend") && may("read");
  return may("read");
}

effect(() => {
  const count = inboxCount.value;
  const at = SCREENS.find((name) => name === screen.value) ?? "runs";
  const id = at === "runs" ? route.value.path[1] : undefined;
  document.title = `${count ? `(${count}) ` : ""}${id === undefined ? t(`${at}.title`) : marked(id)} · clicket`;
});

export function App() {
  useEffect(() => {
    void begin();
  }, []);
  const who = principal.value;
  useEffect(() => {
    if (!who) return;
    if (may("read")) openFeed();
    openInbox();
    // A key that only approves has no stream of events.
    const timer = may("read") ? 0 : setInterval(() => { if (!document.hidden) void refreshInbox(); }, 5_000);
    return () => {
      clearInterval(timer);
      closeFeed();
      closeInbox();
    };
  }, [who]);
  useEffect(() => effect(() => {
    // A key that was revoked under the open page.
    if (locked.value && principal.peek()) {
      principal.value = null;
      void begin();
    }
  }), []);
  if (!who) return refusal.value ? <><KeyScreen /><Toasts /></> : <main class="key-screen"><p>{t("loading")}</p></main>;
  return <Page />;
}

function Page() {
  const [help, setHelp] = useState(false);
  useLayoutEffect(() => onKey({
    "?": () => setHelp(true),
    ...Object.fromEntries(SCREENS.map((name, index) => [String((index + 1) % 10), () => { if (offered(name)) go(link([name])); }])),
  }), []);
  return (
    <div class="page">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>{t("skip")}</a>
      <nav class="side" aria-label={t("navigation")}>
        <a class="brand" href={link(["runs"])}><img src="./console/icon.svg" alt="" width="22" height="22" /><span>clicket</span></a>
        <ul>
          {SCREENS.filter(offered).map((name) => (
            <li key={name}>
              <a href={link([name])} aria-current={screen.value === name ? "page" : undefined} data-name={name}>
                <Icon name={name as IconName} /><span>{t(`${name}.title`)}</span>
                {name === "inbox" && inboxCount.value > 0 && <span class="count alert">{inboxCount.value}</span>}
              </a>
            </li>
          ))}
        </ul>
        <div class="side-foot">
          <ConnectionState />
          <div class="side-buttons">
            <button class="plain square" aria-label={t("theme", { theme: theme.value })} title={t("theme", { theme: theme.value })} onClick={nextTheme}><Icon name={theme.value === "dark" ? "moon" : theme.value === "light" ? "sun" : "auto"} /></button>
            <button class="plain" aria-label={t("language")} lang={language.value === "zh" ? "en" : "zh-CN"} onClick={() => setLanguage(language.value === "zh" ? "en" : "zh")}>{language.value === "zh" ? "EN" : "中文"}</button>
            <button class="plain square" aria-label={t("help.title")} title={t("help.title")} onClick={() => setHelp(true)}><Icon name="help" /></button>
            {key.value && <button class="plain square" aria-label={t("key.forget")} title={t("key.forget")} onClick={() => { rememberKey(""); principal.value = null; void begin(); }}><Icon name="key" /></button>}
          </div>
        </div>
      </nav>
      <main id="main" tabIndex={-1}><Content /></main>
      <Toasts />
      {help && <Help onClose={() => setHelp(false)} />}
    </div>
  );
}

function Content() {
  const { path } = route.value;
  const shown = path.join("/");
  useEffect(() => {
    document.getElementById("main")?.scrollTo(0, 0);
  }, [shown]);
  switch (screen.value) {
    case "inbox": return <InboxScreen />;
    case "tools": return <ToolsScreen />;
    case "threads": return <ThreadsScreen />;
    case "overview": return <OverviewScreen />;
    case "schedules": return <SchedulesScreen />;
    case "spend": return <SpendScreen />;
    case "grants": return <GrantsScreen />;
    case "notices": return <NoticesScreen />;
    case "evals": return <EvalsScreen />;
    default:
      if (!may("read")) return <InboxScreen />;
      return path[1] === undefined ? <RunsScreen /> : <RunScreen key={path[1]} id={path[1]} />;
  }
}

function ConnectionState() {
  if (!may("read")) return null;
  return <p class="connection" data-state={connection.value} role="status"><span class="dot" />{t(`connection.${connection.value}`)}</p>;
}

function Help({ onClose }: { onClose: () => void }) {
  const keys: [string, string][] = [
    ["j / k", t("help.move")], ["Enter", t("help.open")], ["x", t("help.select")], ["/", t("help.search")], ["Esc", t("help.clear")], ["1 – 9, 0", t("help.screens")], ["?", t("help.title")],
  ];
  return (
    <Dialog title={t("help.title")} onClose={onClose}>
      <dl class="facts keys">{keys.map(([name, about]) => <><dt><kbd>{name}</kbd></dt><dd>{about}</dd></>)}</dl>
    </Dialog>
  );
}
