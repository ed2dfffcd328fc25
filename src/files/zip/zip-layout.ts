import type { ParsedZipEntry } from './zip-entries.ts';

const maxFileNames = 5;

/** Finds the top folder and the start file from the entries of a zip, or of a folder that will become one. */
export function createLayout<T extends Pick<ParsedZipEntry, 'path' | 'kind'>>(startFile: string | null) {
  const fileNames: string[] = [];
  let fileCount = 0;
  /** Undefined before the first entry, null if the entries have no common folder. */
  let commonFolder: string | null | undefined;
  let atTop: T | undefined;
  let inFolder: T | undefined;

  /** Of several top folders none is preferred. */
  function findStart(topFolder: string | null): { folder: string; entry: T } | null {
    if (atTop !== undefined) return { folder: '', entry: atTop };
    return topFolder !== null && inFolder !== undefined ? { folder: topFolder, entry: inFolder } : null;
  }

  return {
    add(entry: T): void {
      const { path, kind } = entry;
      if (path === '' || isFileManagerMetadata(path)) return;
      const slash = path.indexOf('/');
      const topName = slash === -1 ? path : path.slice(0, slash);
      const folder = slash === -1 && kind === 'file' ? null : topName;
      if (commonFolder === undefined) commonFolder = folder;
      else if (commonFolder !== folder) commonFolder = null;
      if (kind === 'folder') return;
      if (path === startFile) atTop = entry;
      else if (path.slice(slash + 1) === startFile) inFolder ??= entry;
      if (fileCount++ < maxFileNames) fileNames.push(path);
    },

    read() {
      const topFolder = commonFolder ?? null;
      return { topFolder, fileCount, fileNames, start: findStart(topFolder) };
    },
  };
}

/** Files that macOS adds to zips and folders. */
function isFileManagerMetadata(path: string): boolean {
  return path === '__MACOSX' || path.startsWith('__MACOSX/') || path === '.DS_Store' || path.endsWith('/.DS_Store');
}
