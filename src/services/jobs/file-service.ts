import type { Metrics } from '../../metrics/metrics.ts';
import { createLogFeeds } from './log-feed.ts';
import { archiveFiles, type FileDeps, type FileRequest, listFiles, openFile } from './read-files.ts';
import { type LogRequest, openJobLog } from './read-log.ts';
import { createUserQueue } from './user-queue.ts';

/** Of one user on one system. Finding the links of a file that has several may read the whole workspace. */
const maxOpeningFiles = 4;

export type FileService = ReturnType<typeof createFileService>;

/** Reads the files and logs that jobs produce. */
export function createFileService(deps: FileDeps, metrics: Metrics) {
  const feeds = createLogFeeds(metrics);
  const enqueue = createUserQueue(maxOpeningFiles);
  return {
    list: (request: FileRequest) => listFiles(deps, request),
    // For each system apart, because one that hangs must not delay the files on another.
    open: (request: FileRequest) => enqueue(`${request.user} ${request.project.hpc}`, () => openFile(deps, request)),
    archive: (request: FileRequest) => archiveFiles(deps, request),
    openLog: (request: LogRequest) => openJobLog({ ...deps, feeds }, request),
  };
}
