// Asks for the API key. It is kept for this browser tab, and sent only to this server, in a header.
import { useState } from "preact/hooks";
import { key, rememberKey } from "../api/client";
import { t } from "../i18n";
import { begin, refusal } from "../session";

export function KeyScreen() {
  const [text, setText] = useState("");
  const enter = (event: Event) => {
    event.preventDefault();
    rememberKey(text.trim());
    void begin();
  };
  const problem = refusal.value;
  return (
    <main class="key-screen">
      <form class="panel" onSubmit={enter} autocomplete="off">
        <h1>clicket</h1>
        {problem && problem.status !== 401 ? (
          <>
            <p role="alert" class="failure">{problem.status === 0 ? t("key.unreachable") : problem.message}</p>
            <button type="button" onClick={() => void begin()}>{t("key.retry")}</button>
          </>
        ) : (
          <>
            <p>{t("key.about")}</p>
            {key.value && <p role="alert" class="failure">{t("key.refused")}</p>}
            <label for="key">{t("key.label")}</label>
            <input id="key" type="password" value={text} autoFocus spellcheck={false} autocomplete="off" placeholder="ck_…" onInput={(event) => setText(event.currentTarget.value)} />
            <button class="main" disabled={!text.trim()}>{t("key.enter")}</button>
            <p class="hint">{t("key.make")} <code>clicket keys create</code></p>
          </>
        )}
      </form>
    </main>
  );
}
