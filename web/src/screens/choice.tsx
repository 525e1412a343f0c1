// A filter of a screen: one of some values, kept in the address.
import { route, withQuery } from "../router";

interface Props {
  name: string;
  label: string;
  options: readonly string[];
  shown?: (value: string) => string;
  /** The text for "all of them"; left out: the first option is chosen instead. */
  any?: string;
}

export function Choice({ name, label, options, shown = (value) => value, any }: Props) {
  const value = route.value.query.get(name) ?? "";
  return (
    <label class="filter" data-set={value !== ""}>
      <span>{label}</span>
      <select value={value || (any === undefined ? options[0] : "")} onChange={(event) => withQuery({ [name]: event.currentTarget.value || null })}>
        {any !== undefined && <option value="">{any}</option>}
        {options.map((option) => <option key={option} value={option}>{shown(option)}</option>)}
      </select>
    </label>
  );
}
