// A deep search: rounds with their queries, the documents, and the answer with its citations highlighted in them.
import { useState } from "preact/hooks";
import type { CallRecord } from "../../api/types";
import { t } from "../../i18n";
import { percent } from "../../model/format";
import { pathOf } from "../../model/path";
import { piecesOf, searchOf } from "../../model/search";
import { SEARCH } from "../../model/tables";
import { SEARCH_LAYOUT, StateDiagram } from "../../ui/state-diagram";

export function SearchView({ record }: { record: CallRecord }) {
  const search = searchOf(record);
  const [chosen, setChosen] = useState(0);
  const cited = new Set(search.citations.map((each) => each.doc));
  const choose = (number: number) => {
    setChosen(number);
    document.getElementById(`cited-${number}`)?.scrollIntoView({ block: "center", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  };
  return (
    <section class="panel search-view">
      <h2>{t("search.title")}</h2>
      {search.answer && (
        <p class="answer">
          {search.answer.split(/(\[\d{1,3}\])/).map((part, index) => {
            const number = Number(/^\[(\d+)\]$/.exec(part)?.[1] ?? 0);
            return number ? <button key={index} class="cite plain" aria-pressed={chosen === number} aria-label={t("search.citation", { number })} onClick={() => choose(number)}>{number}</button> : part;
          })}
        </p>
      )}
      <h3>{t("search.rounds")}</h3>
      <ol class="rounds">
        {search.rounds.map((round) => (
          <li key={round.loop}>
            <strong>{t("search.round", { number: round.loop })}</strong>
            {round.score !== null && <span class="hint"> {t("search.completeness", { share: percent(round.score) })}</span>}
            <ul>{round.queries.map((query) => <li key={query}>{query}{round.failed[query] ? <span class="bad"> {round.failed[query]}</span> : null}</li>)}</ul>
            {round.areas.length > 0 && <p class="hint">{t("search.areas")}: {round.areas.join("; ")}</p>}
          </li>
        ))}
      </ol>
      <h3>{t("search.documents", { count: search.documents.length })}</h3>
      {search.documents.map((document) => (
        <details key={document.id} open={cited.has(document.id)}>
          <summary>{document.title || document.id} <span class="hint">{document.score?.toFixed(2)}</span></summary>
          <p class="document">
            {piecesOf(document, search.citations).map((piece, index) => piece.citation
              ? <mark key={index} id={`cited-${piece.citation}`} data-chosen={piece.citation === chosen}>{piece.text}<sup>{piece.citation}</sup></mark>
              : <span key={index}>{piece.text}</span>)}
          </p>
        </details>
      ))}
      <details>
        <summary>{t("notebook.states")}</summary>
        <StateDiagram table={SEARCH} layout={SEARCH_LAYOUT} taken={pathOf(search.states)} label={t("notebook.states")} />
      </details>
    </section>
  );
}
