import type { JobFile } from '@bursar/client';

export interface Folder {
  kind: 'folder';
  name: string;
  path: string;
  /** Number of files in it and in its folders, and their size. */
  fileCount: number;
  size: number;
  children: TreeNode[];
}

export interface FileNode {
  kind: 'file';
  name: string;
  file: JobFile;
}

export type TreeNode = Folder | FileNode;

/** Arranges the list of files in folders: folders first, by name. */
export function buildTree(files: readonly JobFile[]): Folder {
  const root: Folder = { kind: 'folder', name: '', path: '', fileCount: 0, size: 0, children: [] };
  const folders = new Map([['', root]]);
  const folderOf = (path: string): Folder => {
    const known = folders.get(path);
    if (known !== undefined) return known;
    const slash = path.lastIndexOf('/');
    const folder: Folder = { kind: 'folder', name: path.slice(slash + 1), path, fileCount: 0, size: 0, children: [] };
    folders.set(path, folder);
    folderOf(path.slice(0, Math.max(0, slash))).children.push(folder);
    return folder;
  };
  for (const file of files) {
    const slash = file.path.lastIndexOf('/');
    const parent = file.path.slice(0, Math.max(0, slash));
    folderOf(parent).children.push({ kind: 'file', name: file.path.slice(slash + 1), file });
    for (let path: string | undefined = parent; path !== undefined; path = parentOf(path)) {
      const folder = folderOf(path);
      folder.fileCount += 1;
      folder.size += file.size;
    }
  }
  for (const folder of folders.values()) folder.children.sort(byKindAndName);
  return root;
}

const parentOf = (path: string) => (path === '' ? undefined : path.slice(0, Math.max(0, path.lastIndexOf('/'))));

const collator = new Intl.Collator('en', { numeric: true });

function byKindAndName(a: TreeNode, b: TreeNode): number {
  if (a.kind !== b.kind) return a.kind === 'folder' ? -1 : 1;
  return collator.compare(a.name, b.name);
}
