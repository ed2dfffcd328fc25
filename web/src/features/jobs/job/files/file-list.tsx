import { useState } from 'react';
import { formatBytes } from '../../../../../../src/domain/format-amount.ts';
import { Button } from '../../../../ui/button.tsx';
import { formatCount, formatNumber } from '../../../../ui/format.ts';
import { Link } from '../../../../ui/link.tsx';
import { Time } from '../../../../ui/time.tsx';
import type { JobSource } from '../job-source.ts';
import styles from './file-list.module.css';
import type { FileNode, Folder } from './file-tree.ts';

/** Number of entries of a folder that are shown at first: thousands of rows would be slow. */
const pageSize = 200;
/** Folders of a job with more files are closed at first. */
const maxOpenFiles = 50;

interface FileListProps {
  source: JobSource;
  folder: Folder;
  /** The file of the preview. */
  current: string | undefined;
}

/** The files of a job as a tree. Folders are buttons that open and close, files are links to their preview. */
export function FileList({ source, folder, current }: FileListProps) {
  const isOpen = folder.fileCount <= maxOpenFiles;
  return <Children source={source} folder={folder} current={current} opensFolders={isOpen} />;
}

interface ChildrenProps extends FileListProps {
  opensFolders: boolean;
}

function Children({ folder, ...rest }: ChildrenProps) {
  const [shown, setShown] = useState(pageSize);
  const hidden = folder.children.length - shown;
  return (
    <ul className={styles.list}>
      {folder.children
        .slice(0, shown)
        .map((node) =>
          node.kind === 'folder' ? (
            <FolderRow key={`${node.path}/`} folder={node} {...rest} />
          ) : (
            <FileRow key={node.file.path} node={node} {...rest} />
          ),
        )}
      {hidden > 0 && (
        <li>
          <Button variant="quiet" onClick={() => setShown(shown + 5 * pageSize)}>
            Show more of {formatNumber(hidden)} others
          </Button>
        </li>
      )}
    </ul>
  );
}

function FolderRow({ folder, ...rest }: ChildrenProps) {
  const { current, opensFolders } = rest;
  const [isOpen, setOpen] = useState(opensFolders || (current?.startsWith(`${folder.path}/`) ?? false));
  const { fileCount } = folder;
  return (
    <li>
      <div className={styles.row}>
        <button type="button" className={styles.name} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <span className={styles.icon} aria-hidden="true">
            {isOpen ? '▾' : '▸'}
          </span>
          {folder.name}/
        </button>
        <span className={styles.size}>{formatBytes(folder.size)}</span>
        <span className={styles.time}>{formatCount(fileCount, 'file')}</span>
      </div>
      {isOpen && (
        <div className={styles.children}>
          <Children folder={folder} {...rest} />
        </div>
      )}
    </li>
  );
}

function FileRow({ node: { name, file }, source, current }: Omit<ChildrenProps, 'folder'> & { node: FileNode }) {
  return (
    <li>
      <div className={styles.row} data-current={file.path === current || undefined}>
        <Link
          className={styles.name ?? ''}
          from="/jobs/$hpc/$project/$jobId"
          to="."
          search={(search) => ({ ...search, file: file.path })}
          aria-current={file.path === current ? 'true' : undefined}
          resetScroll={false}
        >
          <span className={styles.icon} />
          {name}
        </Link>
        <span className={styles.size}>{formatBytes(file.size)}</span>
        <span className={styles.time}>
          <Time value={file.modified} />
        </span>
        <a
          className={styles.download}
          href={source.fileUrl(file.path)}
          download
          aria-label={`Download ${name}`}
          title="Download"
        >
          ↓
        </a>
      </div>
    </li>
  );
}
