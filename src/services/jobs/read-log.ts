import { isTerminal } from '../../domain/jobs/job.ts';
import type { LogStream } from '../../files/workspaces/workspace-reader.ts';
import { findJobState } from '../../store/jobs/jobs.ts';
import type { Owner, PathScope } from '../scope.ts';
import { requireJob } from './find-job.ts';
import type { createLogFeeds, LogSource } from './log-feed.ts';
import { type FileDeps, workspacesOf } from './read-files.ts';

export type { LogStream } from '../../files/workspaces/workspace-reader.ts';

export interface LogDeps extends FileDeps {
  feeds: ReturnType<typeof createLogFeeds>;
}

export interface LogQuestion {
  owner: Owner;
  place: Required<PathScope>;
  jobId: string;
  stream: LogStream;
  signal: AbortSignal;
}

/** What a job prints, as it was when it was opened. */
export interface Log {
  size: number;
  /** Whether nothing more will come. */
  isOver: boolean;
  /** From an offset to the size that it had. */
  read(offset: number): AsyncIterable<Buffer>;
  /** From an offset on, until the job has ended and everything was sent. Ends early when the signal is aborted. */
  follow(offset: number): AsyncIterable<Buffer>;
}

const pieceBytes = 1024 * 1024;

/** A job that has printed nothing yet, or not even begun, has an empty log. */
export async function openLog(deps: LogDeps, question: LogQuestion): Promise<Log> {
  const { owner, place, jobId, stream, signal } = question;
  const job = await requireJob(deps.db, deps.systems, owner, place, jobId);
  const workspaces = workspacesOf(deps, job);
  const source: LogSource = {
    look: (from, until) => workspaces.readLog(jobId, stream, from, until),
    isOver: async () => isTerminal((await findJobState(deps.db, job.id)) ?? 'deleted'),
    lookMs: workspaces.logPollMs,
  };
  const first = await source.look({ offset: 0, maxBytes: 0 }, signal);
  const size = first?.size ?? 0;
  return {
    size,
    isOver: isTerminal(job.status.state),
    read: (offset) => readPieces(source, offset, size, signal),
    follow: (offset) => deps.feeds.follow(`${jobId}/${stream}`, source, offset, signal),
  };
}

async function* readPieces(source: LogSource, from: number, to: number, signal: AbortSignal): AsyncGenerator<Buffer> {
  for (let offset = from; offset < to; ) {
    const look = await source.look({ offset, maxBytes: Math.min(pieceBytes, to - offset) }, signal);
    if (look === undefined || look.bytes.length === 0) return;
    offset += look.bytes.length;
    yield look.bytes;
  }
}
