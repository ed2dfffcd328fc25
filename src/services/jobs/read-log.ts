import { isTerminal } from '../../domain/jobs/job.ts';
import type { LogStream } from '../../files/workspaces/workspace-reader.ts';
import { findJobState } from '../../store/jobs/jobs.ts';
import type { ServiceDeps } from '../service-deps.ts';
import { requireJob } from './find-job.ts';
import type { LogSource } from './log-feed.ts';
import { type FileDeps, type Reading, requireFilesPresent, requireWorkspaces } from './read-files.ts';

export type { LogStream } from '../../files/workspaces/workspace-reader.ts';

export interface LogRequest extends Reading {
  stream: LogStream;
}

/** The standard output or standard error of a job. */
export interface Log {
  /** Bytes in the log when it was opened. */
  size: number;
  /** Whether the job has ended, so that the log no longer grows. */
  isComplete: boolean;
  /** Yields the bytes from the offset to `size`. */
  read(offset: number): AsyncIterable<Buffer>;
  /** Yields the bytes from the offset until the job has ended and its log was read to the end, or the signal is aborted. */
  follow(offset: number): AsyncIterable<Buffer>;
}

const chunkBytes = 1024 * 1024;

/** The log of a job that has not started or has written nothing is empty. */
export async function openJobLog(deps: FileDeps & Pick<ServiceDeps, 'logFeeds'>, request: LogRequest): Promise<Log> {
  const { jobId, stream, signal } = request;
  const job = await requireJob(deps, request);
  const workspaces = requireWorkspaces(deps, job);
  const source: LogSource = {
    read: (range, readSignal) => workspaces.readLog({ ...request, signal: readSignal }, stream, range),
    isComplete: async () => isTerminal((await findJobState(deps.db, job.id)) ?? 'deleted'),
    pollMs: workspaces.logPollMs,
  };
  const log = await source.read({ offset: 0, maxBytes: 0 }, signal);
  if (log === undefined) await requireFilesPresent(deps, job, request);
  const size = log?.size ?? 0;
  return {
    size,
    isComplete: isTerminal(job.status.state),
    read: (offset) => readChunks(source, offset, size, signal),
    follow: (offset) => deps.logFeeds.follow(`${jobId}/${stream}`, source, { from: offset, size }, signal),
  };
}

async function* readChunks(source: LogSource, from: number, to: number, signal: AbortSignal): AsyncGenerator<Buffer> {
  for (let offset = from; offset < to; ) {
    const chunk = await source.read({ offset, maxBytes: Math.min(chunkBytes, to - offset) }, signal);
    if (chunk === undefined || chunk.bytes.length === 0) return;
    offset += chunk.bytes.length;
    yield chunk.bytes;
  }
}
