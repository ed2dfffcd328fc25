import type { JobFile, Timeline } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { type ReactNode, useEffect, useMemo, useRef } from 'react';
import { formatBytes } from '../../../../../../src/domain/format-amount.ts';
import { Button, buttonClass } from '../../../../ui/button.tsx';
import { Card } from '../../../../ui/card.tsx';
import { formatCount } from '../../../../ui/format.ts';
import { EmptyState, QueryView, Skeleton } from '../../../../ui/states.tsx';
import { Time } from '../../../../ui/time.tsx';
import type { JobSource } from '../job-source.ts';
import { filesQuery } from '../queries.ts';
import { FileList } from './file-list.tsx';
import { FilePreview } from './file-preview.tsx';
import { buildTree } from './file-tree.ts';
import styles from './files-tab.module.css';

const route = getRouteApi('/jobs/$hpc/$project/$jobId');

/** The files in the working directory of the job, with a preview of one. */
export function FilesTab({ source, timeline }: { source: JobSource; timeline: Timeline }) {
  const deletion = timeline.entries.findLast(({ type }) => type === 'job.deleted');
  const files = useQuery({ ...filesQuery(source), enabled: deletion === undefined });
  if (deletion !== undefined) {
    return (
      <Card>
        <EmptyState title="The files of this job were deleted">
          <Time value={deletion.at} />
          {deletion.reason === null ? '' : `: ${deletion.reason}`}. The history and the charge of the job stay.
        </EmptyState>
      </Card>
    );
  }
  return (
    <QueryView query={files} loading={<Skeleton height="16rem" />}>
      {(list) => (
        <div className="stack">
          <ExpiryNotice timeline={timeline} />
          {list.length === 0 ? (
            <NoFiles timeline={timeline} />
          ) : (
            <Files source={source} list={list} onReload={files.refetch} />
          )}
        </div>
      )}
    </QueryView>
  );
}

function ExpiryNotice({ timeline }: { timeline: Timeline }) {
  const expiring = timeline.entries.findLast(({ type }) => type === 'job.expiring');
  if (expiring === undefined) return null;
  return (
    <p className="notice" role="status">
      These files will be deleted
      {expiring.deletes_at === null ? (
        ' soon'
      ) : (
        <>
          {' '}
          on <Time value={expiring.deletes_at} />
        </>
      )}
      , because the project keeps files for a limited time. Download what you need.
    </p>
  );
}

function NoFiles({ timeline }: { timeline: Timeline }) {
  return (
    <Card>
      <EmptyState title="There are no files">
        {timeline.job.terminal_stage
          ? 'The job came without files, and has written none.'
          : 'The job has written none yet. They appear here when it does.'}
      </EmptyState>
    </Card>
  );
}

interface FilesProps {
  source: JobSource;
  list: readonly JobFile[];
  onReload: () => void;
}

function Files({ source, list, onReload }: FilesProps) {
  const { file: path } = route.useSearch();
  const tree = useMemo(() => buildTree(list), [list]);
  const file = list.find((each) => each.path === path);
  return (
    <div className={styles.columns} data-preview={path !== undefined || undefined}>
      <Card
        title={`${formatCount(list.length, 'file')}, ${formatBytes(tree.size)}`}
        actions={
          <>
            <Button onClick={onReload}>Read again</Button>
            <a className={buttonClass()} href={source.archiveUrl} download>
              Download all (zip)
            </a>
          </>
        }
      >
        <FileList source={source} folder={tree} current={path} />
      </Card>
      {path !== undefined && (
        <ScrolledIntoView key={path} className={styles.preview}>
          {file === undefined ? <MissingFile path={path} /> : <FilePreview source={source} file={file} />}
        </ScrolledIntoView>
      )}
    </div>
  );
}

/** In a narrow window the preview is below the list, out of sight. */
function ScrolledIntoView({ className, children }: { className: string | undefined; children: ReactNode }) {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    element.current?.scrollIntoView({ block: 'nearest' });
  }, []);
  return (
    <div ref={element} className={className}>
      {children}
    </div>
  );
}

function MissingFile({ path }: { path: string }) {
  return (
    <Card>
      <EmptyState title="There is no such file">
        The job has no file <code>{path}</code> now.
      </EmptyState>
    </Card>
  );
}
