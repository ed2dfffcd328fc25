/** A file, or a folder without content, that goes into the zip of a job. */
export interface FolderFile {
  /** Relative, with slashes. */
  path: string;
  /** Null for a folder. */
  file: File | null;
  bytes: number;
}

/** The files that the user has chosen. A folder becomes a zip when the job is submitted. */
export type Selection =
  | { kind: 'zip'; name: string; zip: Blob }
  | { kind: 'folder'; name: string; files: readonly FolderFile[]; ignoredCount: number };

/** Identifies the chosen files, without reading them. */
export function describeSelection(selection: Selection | null): unknown {
  if (selection === null) return null;
  if (selection.kind === 'folder') {
    return selection.files.map(({ path, bytes, file }) => [path, bytes, file?.lastModified]);
  }
  const { zip } = selection;
  return [selection.name, zip.size, zip instanceof File ? zip.lastModified : null];
}
