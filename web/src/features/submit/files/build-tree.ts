import type { ListedEntry } from '../../../../../src/files/zip/list-input.ts';

export interface TreeNode {
  name: string;
  path: string;
  kind: 'file' | 'folder';
  /** Of a folder: of everything in it. */
  bytes: number;
  problem: string | null;
  /** Number of refused entries in a folder. */
  problemCount: number;
  children: TreeNode[];
}

/** Arranges entries as a tree: folders first, then by name. Entries with refused names stay at the top, as they are. */
export function buildTree(entries: readonly ListedEntry[]): TreeNode[] {
  const root = createNode('', '', 'folder');
  const folders = new Map<string, TreeNode>([['', root]]);
  const folderOf = (path: string): TreeNode => {
    const known = folders.get(path);
    if (known !== undefined) return known;
    const slash = path.lastIndexOf('/');
    const node = createNode(path.slice(slash + 1), path, 'folder');
    folders.set(path, node);
    folderOf(slash === -1 ? '' : path.slice(0, slash)).children.push(node);
    return node;
  };
  for (const entry of entries) {
    const { path, kind, bytes, problem } = entry;
    if (kind === 'folder' && problem === null) {
      folderOf(path);
      continue;
    }
    const slash = isPlain(path) ? path.lastIndexOf('/') : -1;
    const parent = folderOf(slash === -1 ? '' : path.slice(0, slash));
    parent.children.push({ ...createNode(path.slice(slash + 1), path, kind), bytes, problem });
  }
  summarize(root);
  return root.children;
}

const createNode = (name: string, path: string, kind: TreeNode['kind']): TreeNode => ({
  name,
  path,
  kind,
  bytes: 0,
  problem: null,
  problemCount: 0,
  children: [],
});

/** Whether the path can be shown in its folders. */
const isPlain = (path: string) => path.split('/').every((segment) => segment !== '' && segment !== '..');

function summarize(node: TreeNode): void {
  for (const child of node.children) {
    summarize(child);
    node.bytes += child.bytes;
    node.problemCount += child.problemCount + (child.problem === null ? 0 : 1);
  }
  node.children.sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}

/** Refused entries come first, so that nobody has to look for them. */
const rank = ({ problem, kind }: TreeNode) => (problem !== null ? 0 : kind === 'folder' ? 1 : 2);
