import { useState } from 'react';
import { formatBytes } from '../../../../../src/domain/format-amount.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import type { TreeNode } from './build-tree.ts';
import styles from './files.module.css';

/** Number of files of a folder that are shown at first: thousands of rows would be slow. */
const pageSize = 100;
/** Deeper folders are closed at first: a hostile zip can have hundreds in each other. */
const maxOpenDepth = 10;

/** The files of a job with their sizes. Folders open and close; refused entries say why. */
export function FileTree({ nodes, label }: { nodes: readonly TreeNode[]; label: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must be able to scroll it
    <section className={styles.tree} aria-label={label} tabIndex={0}>
      <NodeList nodes={nodes} depth={0} />
    </section>
  );
}

function NodeList({ nodes, depth }: { nodes: readonly TreeNode[]; depth: number }) {
  const [shown, setShown] = useState(pageSize);
  const rest = nodes.length - shown;
  return (
    <ul className={styles.list}>
      {nodes.slice(0, shown).map((node) => (
        <li key={`${node.kind}:${node.path}`}>
          {node.kind === 'folder' && node.problem === null ? (
            <FolderNode node={node} depth={depth} />
          ) : (
            <FileNode node={node} />
          )}
        </li>
      ))}
      {rest > 0 && (
        <li>
          <Button variant="quiet" onClick={() => setShown(shown + 10 * pageSize)}>
            Show {Math.min(rest, 10 * pageSize)} more of {rest}
          </Button>
        </li>
      )}
    </ul>
  );
}

function FolderNode({ node, depth }: { node: TreeNode; depth: number }) {
  const { name, bytes, children, problemCount } = node;
  // Folders with a problem are open: it must be seen.
  const [isOpen, setOpen] = useState(
    (problemCount > 0 && depth < maxOpenDepth) || (depth === 0 && children.length <= 20),
  );
  return (
    <>
      <button type="button" className={styles.folder} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span className={styles.arrow} aria-hidden="true">
          {isOpen ? '▾' : '▸'}
        </span>
        <span className={styles.name}>{name}/</span>
        {problemCount > 0 && <Badge tone="bad">{problemCount} refused</Badge>}
        <span className={styles.size}>{formatBytes(bytes)}</span>
      </button>
      {isOpen && <NodeList nodes={children} depth={depth + 1} />}
    </>
  );
}

function FileNode({ node: { name, path, bytes, problem } }: { node: TreeNode }) {
  return (
    <>
      <div className={styles.file}>
        <span className={styles.name}>{name || path}</span>
        {problem !== null && <Badge tone="bad">Refused</Badge>}
        <span className={styles.size}>{formatBytes(bytes)}</span>
      </div>
      {problem !== null && <p className={styles.problem}>{problem}</p>}
    </>
  );
}
