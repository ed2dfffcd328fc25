import { useNavigate, useSearch } from '@tanstack/react-router';
import { useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { formatBytes } from '../../../../../../src/domain/format-amount.ts';
import { Button } from '../../../../ui/button.tsx';
import { Card } from '../../../../ui/card.tsx';
import { formatCount } from '../../../../ui/format.ts';
import { Link } from '../../../../ui/link.tsx';
import { describeError, EmptyState, ErrorState, SkeletonLines } from '../../../../ui/states.tsx';
import { toast } from '../../../../ui/toast.tsx';
import type { JobSource, LogStream } from '../job-source.ts';
import { LogLines, type LogLinesHandle } from './log-lines.tsx';
import { type LogReader, type LogStart, type LogView, startLogReader } from './log-reader.ts';
import styles from './log-tab.module.css';
import { LogToolbar } from './log-toolbar.tsx';
import { useLogSearch } from './use-log-search.ts';

const route = '/jobs/$hpc/$project/$jobId';
const streams = ['stdout', 'stderr'] as const;

/** The output of the job. It follows the end while the job runs, and stops following when the user scrolls up. */
export function LogTab({ source }: { source: JobSource }) {
  const { stream = 'stdout', line } = useSearch({ from: route });
  const [from, setFrom] = useState<LogStart['from']>(line === undefined ? 'end' : 'start');
  return (
    <div className="stack">
      <nav className={styles.streams} aria-label="Streams">
        {streams.map((name) => (
          <Link
            key={name}
            from={route}
            to="."
            search={(search) => ({ ...search, stream: name === 'stderr' ? name : undefined, line: undefined })}
            aria-current={name === stream ? 'page' : undefined}
            replace
          >
            {name}
          </Link>
        ))}
      </nav>
      <StreamLog key={`${stream} ${from}`} source={source} stream={stream} from={from} onFrom={setFrom} />
    </div>
  );
}

interface StreamLogProps {
  source: JobSource;
  stream: LogStream;
  from: LogStart['from'];
  onFrom: (from: LogStart['from']) => void;
}

function StreamLog({ source, stream, from, onFrom }: StreamLogProps) {
  const [reader, setReader] = useState<LogReader>();
  useEffect(() => {
    const started = startLogReader(source, { stream, from });
    setReader(started);
    return () => started.stop();
  }, [source, stream, from]);
  if (reader === undefined) return <SkeletonLines />;
  return <ReaderLog source={source} stream={stream} reader={reader} onFrom={onFrom} />;
}

function ReaderLog({ source, stream, reader, onFrom }: Omit<StreamLogProps, 'from'> & { reader: LogReader }) {
  const view = useSyncExternalStore(reader.subscribe, reader.view);
  const { line, admin } = useSearch({ from: route });
  const navigate = useNavigate({ from: route });
  const [isFollowing, setFollowing] = useState(line === undefined);
  const [wraps, setWraps] = useState(true);
  const lines = useRef<LogLinesHandle>(null);
  const { buffer } = reader;
  const show = (index: number) => {
    setFollowing(false);
    lines.current?.showLine(index);
  };
  const search = useLogSearch(reader, view.version, () => lines.current?.topLine() ?? 0, show);
  useLinkedLine(reader, line, show);

  if (view.status === 'failed' && buffer.lines.length === 0) return <LogFailure view={view} onRetry={reader.retry} />;
  if (buffer.lines.length === 0) return <EmptyLog view={view} stream={stream} />;
  const openLine = (number: number) => {
    void navigate({ search: (previous) => ({ ...previous, line: number }), replace: true, resetScroll: false });
    const isKnown = buffer.firstNumber !== undefined && number >= buffer.firstNumber;
    if (!isKnown) onFrom('start');
  };
  return (
    <div className={styles.log}>
      <LogToolbar
        search={search}
        wraps={wraps}
        onWraps={setWraps}
        onLine={openLine}
        downloadUrl={source.logUrl(stream)}
        downloadName={`${source.path.job_id}.${stream}.txt`}
      />
      <EarlierNotice reader={reader} view={view} onFrom={onFrom} />
      <LogLines
        ref={lines}
        label={`${stream} of the job`}
        buffer={buffer}
        wraps={wraps}
        isFollowing={isFollowing}
        onFollowing={setFollowing}
        searchText={search.text}
        foundLine={search.foundLine}
        markedNumber={line}
        lineHref={(number) =>
          `?tab=log${stream === 'stderr' ? '&stream=stderr' : ''}&line=${number}${admin ? '&admin=true' : ''}`
        }
        onLine={openLine}
      />
      <div className={styles.status}>
        <span role="status">{statusText(view, isFollowing)}</span>
        {view.status === 'paused' && <Button onClick={reader.loadLater}>Read on</Button>}
        {view.status === 'failed' && <Button onClick={reader.retry}>Try again</Button>}
        {!isFollowing && (
          <Button onClick={() => setFollowing(true)}>
            {view.status === 'complete' || view.status === 'paused' ? 'Go to the end' : 'Follow again'}
          </Button>
        )}
        <span className={styles.size}>
          {formatCount(buffer.lines.length, 'line')}, {formatBytes(buffer.end - buffer.start)}
        </span>
      </div>
    </div>
  );
}

/** Shows the line of the address once, as soon as it was read. */
function useLinkedLine({ buffer }: LogReader, line: number | undefined, show: (index: number) => void) {
  const shown = useRef<number>(undefined);
  const { firstNumber, lines } = buffer;
  useEffect(() => {
    if (line === undefined || firstNumber === undefined || shown.current === line) return;
    const index = line - firstNumber;
    if (index < 0 || index >= lines.length) return;
    shown.current = line;
    show(index);
  });
}

function EarlierNotice({
  reader,
  view,
  onFrom,
}: { reader: LogReader; view: LogView } & Pick<StreamLogProps, 'onFrom'>) {
  const { buffer } = reader;
  const loadEarlier = () =>
    reader.loadEarlier().catch((error: unknown) => toast.fail('The lines were not read', error));
  if (buffer.firstNumber === 1) return null;
  if (!buffer.canPrepend)
    return <p className="muted">The first lines are no longer shown. Download the log for all of it.</p>;
  return (
    <div className={styles.notice}>
      <span className="muted">
        {formatBytes(buffer.start)} before this are not shown. Lines are numbered when the log is read from its start.
      </span>
      <Button isBusy={view.isLoadingEarlier} onClick={() => void loadEarlier()}>
        Load earlier lines
      </Button>
      <Button onClick={() => onFrom('start')}>Read from the start</Button>
    </div>
  );
}

function statusText({ status, error }: LogView, isFollowing: boolean): string {
  switch (status) {
    case 'reading':
      return 'Reading…';
    case 'following':
      return isFollowing ? 'Following: new lines appear here.' : 'Paused, because you scrolled up.';
    case 'interrupted':
      return 'No connection: trying again. Nothing will be missing.';
    case 'paused':
      return 'There is more.';
    case 'complete':
      return 'Complete.';
    case 'failed':
      return `The log could not be read further: ${describeError(error).message}`;
    default:
      return status satisfies never;
  }
}

function EmptyLog({ view, stream }: { view: LogView; stream: LogStream }) {
  const title = { stdout: 'The job has written nothing', stderr: 'The job has written no errors' }[stream];
  const isComplete = view.status === 'complete';
  return (
    <Card>
      <EmptyState title={isComplete ? title : `${title} yet`}>
        {isComplete ? `It has ended without any text on ${stream}.` : statusText(view, true)}
      </EmptyState>
    </Card>
  );
}

function LogFailure({ view, onRetry }: { view: LogView; onRetry: () => void }) {
  const { code, message } = view.error as { code?: string; message: string };
  return (
    <Card>
      {code === 'files_deleted' ? (
        <EmptyState title="The log was deleted with the files of the job">{message}</EmptyState>
      ) : (
        <ErrorState error={view.error} onRetry={onRetry} />
      )}
    </Card>
  );
}
