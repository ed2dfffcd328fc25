import type { Job, JobFile, Timeline } from '@bursar/client';
import { bursar } from '../../../client/bursar.ts';

export type LogStream = 'stdout' | 'stderr';

export interface JobPath {
  hpc: string;
  project_name: string;
  job_id: string;
}

interface LogRange {
  stream: LogStream;
  /** Offset of the first byte. */
  offset: number;
  /** The response goes on until the job has ended. */
  follow?: boolean;
  signal: AbortSignal;
}

/** One job and its requests: as its owner, or by the paths of administrators. */
export interface JobSource {
  path: JobPath;
  isAdmin: boolean;
  timeline(signal: AbortSignal): Promise<Timeline>;
  files(signal: AbortSignal): Promise<JobFile[]>;
  /** The first bytes of a file. */
  openFile(file: string, maxBytes: number, signal: AbortSignal): Promise<Response>;
  openLog(range: LogRange): Promise<Response>;
  /** Number of bytes in the log now; undefined if the server does not tell. */
  logSize(stream: LogStream, signal: AbortSignal): Promise<number | undefined>;
  /** Administrators give a reason. */
  cancel(reason: string): Promise<Job>;
  deleteFiles(reason: string): Promise<Job>;
  /** Addresses for links: the browser sends its session with them. */
  fileUrl(file: string): string;
  archiveUrl: string;
  logUrl(stream: LogStream): string;
}

export function jobSource(path: JobPath, isAdmin: boolean): JobSource {
  const { api } = bursar;
  const segments = [path.hpc, path.project_name, path.job_id].map(encodeURIComponent).join('/');
  const prefix = isAdmin ? '/admin' : '';
  const filesUrl = `${prefix}/files/${segments}/`;
  const logUrl = (stream: LogStream) => `${prefix}/jobs/${segments}/log/?stream=${stream}`;
  return {
    path,
    isAdmin,
    archiveUrl: `${filesUrl}?archive=zip`,
    fileUrl: (file) => filesUrl + file.split('/').map(encodeURIComponent).join('/'),
    logUrl,
    timeline: (signal) =>
      isAdmin ? api.getJobTimelineOfAnyUser({ path, signal }) : api.getJobTimeline({ path, signal }),
    files: (signal) => (isAdmin ? api.listJobFilesOfAnyUser({ path, signal }) : api.listJobFiles({ path, signal })),
    openFile(file, maxBytes, signal) {
      const options = { path: { ...path, path: file }, headers: { Range: `bytes=0-${maxBytes - 1}` }, signal };
      return isAdmin ? api.getJobFileOfAnyUser(options) : api.getJobFile(options);
    },
    openLog({ stream, offset, follow = false, signal }) {
      const query = { stream, offset, follow: follow ? '1' : '0' } as const;
      const options = { path, query, signal, as: 'response' } as const;
      return isAdmin ? api.getJobLogOfAnyUser(options) : api.getJobLog(options);
    },
    async logSize(stream, signal) {
      const { ok, headers } = await fetch(logUrl(stream), { method: 'HEAD', signal });
      const length = headers.get('content-length');
      return ok && length !== null ? Number(length) : undefined;
    },
    cancel: (reason) => (isAdmin ? api.cancelJobOfAnyUser({ path, body: { reason } }) : api.cancelJob({ path })),
    deleteFiles: (reason) => (isAdmin ? api.deleteJobOfAnyUser({ path, query: { reason } }) : api.deleteJob({ path })),
  };
}
