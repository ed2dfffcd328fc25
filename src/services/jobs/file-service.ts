import { createSlots } from '../../domain/slots.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import { createLogFeeds } from './log-feed.ts';
import { archiveFiles, type FileDeps, type FileRequest, listFiles, openFile } from './read-files.ts';
import { type LogRequest, openJobLog } from './read-log.ts';

/** Of one user on one system. Finding the links of a file that has several may read the whole workspace. */
const maxOpeningFiles = 4;

export type FileService = ReturnType<typeof createFileService>;

/** Reads the files and logs that jobs produce. */
export function createFileService(deps: FileDeps, metrics: Metrics) {
  const feeds = createLogFeeds(metrics);
  const openings = createSlots({ perKey: maxOpeningFiles });
  return {
    list: (request: FileRequest) => listFiles(deps, request),
    // For each system apart, because one that hangs must not delay the files on another.
    open: (request: FileRequest) =>
      openings.run(() => openFile(deps, request), { key: `${request.user} ${request.project.hpc}` }),
    archive: (request: FileRequest) => archiveFiles(deps, request),
    openLog: (request: LogRequest) => openJobLog({ ...deps, feeds }, request),
  };
}
