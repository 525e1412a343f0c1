// A page with the AI SDK's `useChat`. The test drives it through `window.chat`, and reads what it shows.
import { createElement } from "react";
import { createRoot } from "react-dom/client";
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";

const query = new URLSearchParams(location.search);
const transport = new DefaultChatTransport({ api: `/ai-sdk/${query.get("agent")}` });

function Chat() {
  const chat = useChat({
    id: query.get("thread"),
    resume: query.has("resume"),
    transport,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  window.chat = chat;
  const shown = { status: chat.status, error: chat.error?.message ?? null, messages: chat.messages };
  const text = chat.messages.flatMap((message) => message.parts)
    .filter((part) => part.type === "text").map((part) => part.text).join("|");
  return createElement("main", null,
    createElement("p", { id: "text" }, text),
    createElement("p", { id: "status" }, chat.status),
    createElement("pre", { id: "shown" }, JSON.stringify(shown)));
}

createRoot(document.getElementById("root")).render(createElement(Chat));
