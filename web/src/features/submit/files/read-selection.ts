import type { FolderFile, Selection } from './selection.ts';

/** The files of `<input type="file">`, with or without `webkitdirectory`. */
export async function readFileList(files: readonly File[]): Promise<Selection | null> {
  const [first] = files;
  if (first === undefined) return null;
  if (files.length === 1 && isZip(first)) return toZip(first);
  const found = files.map((file) => ({ path: file.webkitRelativePath || file.name, file, bytes: file.size }));
  return await toFolder(found);
}

/** Everything that was dropped: one zip, one folder, or several files and folders. */
export async function readDrop(transfer: DataTransfer): Promise<Selection | null> {
  // The list is emptied when the event has been handled, so that nothing may be awaited before.
  const items = [...transfer.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const [first] = items;
  if (first === undefined) return await readFileList([...transfer.files]);
  if (items.length === 1 && first.isFile) {
    const file = await fileOf(first as FileSystemFileEntry);
    if (isZip(file)) return toZip(file);
  }
  const found: FolderFile[] = [];
  for (const item of items) await collect(item, found);
  return await toFolder(found);
}

async function collect(entry: FileSystemEntry, found: FolderFile[]): Promise<void> {
  const path = entry.fullPath.replace(/^\//, '');
  if (entry.isFile) {
    const file = await fileOf(entry as FileSystemFileEntry);
    found.push({ path, file, bytes: file.size });
    return;
  }
  found.push({ path, file: null, bytes: 0 });
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  // Each call returns up to a hundred of them.
  for (let part = await readPart(reader); part.length > 0; part = await readPart(reader)) {
    for (const child of part) await collect(child, found);
  }
}

const readPart = (reader: FileSystemDirectoryReader) =>
  new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));

const fileOf = (entry: FileSystemFileEntry) => new Promise<File>((resolve, reject) => entry.file(resolve, reject));

const isZip = ({ name, type }: File) => /\.zip$/i.test(name) || type === 'application/zip';

const toZip = (zip: File): Selection => ({ kind: 'zip', name: zip.name, zip });

/** Leaves the name of a single top folder out of the paths, and the files that .bursarignore names. */
async function toFolder(found: readonly FolderFile[]): Promise<Selection> {
  const { createIgnoreRules } = await import('./zip-rules.ts');
  const tops = new Set(found.map(({ path }) => path.split('/', 1)[0] ?? ''));
  const [top = ''] = tops;
  const isOneFolder = tops.size === 1 && found.some(({ path }) => path.startsWith(`${top}/`));
  const files = isOneFolder
    ? found.filter(({ path }) => path !== top).map((each) => ({ ...each, path: each.path.slice(top.length + 1) }))
    : found;
  const ignoreFile = files.find(({ path }) => path === '.bursarignore')?.file;
  const isIgnored = createIgnoreRules((await ignoreFile?.text()) ?? '');
  const kept = files.filter(({ path, file }) => !isIgnored(path, file === null ? 'folder' : 'file'));
  return {
    kind: 'folder',
    name: isOneFolder ? top : 'files',
    // By ascending path, so that the zip is the same each time.
    files: kept.toSorted((a, b) => (a.path < b.path ? -1 : 1)),
    ignoredCount: files.length - kept.length,
  };
}
