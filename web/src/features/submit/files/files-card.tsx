import { useMemo } from 'react';
import { formatBytes } from '../../../../../src/domain/format-amount.ts';
import { Card } from '../../../ui/card.tsx';
import { formatCount } from '../../../ui/format.ts';
import { Skeleton } from '../../../ui/states.tsx';
import { buildTree } from './build-tree.ts';
import { FileDrop } from './file-drop.tsx';
import { FileTree } from './file-tree.tsx';
import styles from './files.module.css';
import type { Selection } from './selection.ts';
import type { ListingState } from './use-listing.ts';

interface FilesCardProps {
  selection: Selection | null;
  listing: ListingState;
  /** The job lacks its start file, or files at all. */
  startFileError: string | null;
  isDisabled: boolean;
  onSelect: (selection: Selection | null) => void;
}

/** The files of the job: chosen, listed, and checked before anything is sent. */
export function FilesCard({ selection, listing, startFileError, isDisabled, onSelect }: FilesCardProps) {
  return (
    <Card title="Files">
      <FileDrop onSelect={onSelect} hasFiles={selection !== null} isDisabled={isDisabled}>
        {selection === null ? undefined : <Contents selection={selection} listing={listing} />}
      </FileDrop>
      {startFileError !== null && selection !== null && <p className={styles.startError}>{startFileError}</p>}
    </Card>
  );
}

function Contents({ selection, listing }: { selection: Selection; listing: ListingState }) {
  const entries = listing.kind === 'ready' ? listing.listing.entries : undefined;
  const nodes = useMemo(() => buildTree(entries ?? []), [entries]);
  if (listing.kind === 'failed') return <p className={styles.startError}>{listing.message}</p>;
  if (listing.kind !== 'ready') return <Skeleton height="6rem" />;
  const { problem, unpackedBytes } = listing.listing;
  const files = listing.listing.entries.filter(({ kind }) => kind === 'file').length;
  const marked = listing.listing.entries.some((entry) => entry.problem === problem?.message);
  return (
    <div className="stack">
      <div>
        <strong className={styles.name}>{selection.name}</strong>{' '}
        <span className="muted">
          {selection.kind === 'zip' ? `zip of ${formatBytes(selection.zip.size)}: ` : ''}
          {formatCount(files, 'file')}, {formatBytes(unpackedBytes)}
          {selection.kind === 'folder' && selection.ignoredCount > 0
            ? `; ${selection.ignoredCount} left out by .bursarignore and the usual rules`
            : ''}
        </span>
      </div>
      {problem !== null && !marked && (
        <p className={styles.startError} role="alert">
          {problem.message}
        </p>
      )}
      {nodes.length > 0 && <FileTree nodes={nodes} label={`Files of ${selection.name}`} />}
    </div>
  );
}
