// Images and files of a message or a result.
import { request } from "../api/client";
import type { FileRef } from "../api/types";
import { t } from "../i18n";
import { bytes } from "../model/format";
import { Action } from "./button";
import { Picture, save } from "./frame";

const PICTURES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"]);
/** Bytes of a picture that is shown without being asked for. */
const MAX_SHOWN = 8 * 1024 * 1024;

export function Files({ files }: { files: readonly FileRef[] }) {
  if (!files.length) return null;
  return <div class="files">{files.map((file) => <FileView key={file.artifact} file={file} />)}</div>;
}

function FileView({ file }: { file: FileRef }) {
  const name = file.name || t("files.unnamed", { type: file.media_type });
  return (
    <figure>
      {PICTURES.has(file.media_type) && file.size <= MAX_SHOWN && <Picture mime={file.media_type} data={null} artifact={file.artifact} title={name} />}
      <figcaption><Download artifact={file.artifact} name={name} size={file.size} /></figcaption>
    </figure>
  );
}

export function Download({ artifact, name, size }: { artifact: string; name: string; size: number }) {
  const download = async () => {
    const response = await request(`/artifacts/${encodeURIComponent(artifact)}`);
    save(name.split("/").at(-1) || "file", await response.blob(), "application/octet-stream");
  };
  return <Action kind="plain" icon="save" onClick={download}>{name} ({bytes(size)})</Action>;
}
