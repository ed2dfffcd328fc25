import type { Metrics } from '../../metrics/registry.ts';
import { createLogFeeds } from './log-feed.ts';
import { archiveFiles, type FileDeps, type FileQuestion, listFiles, openFile } from './read-files.ts';
import { type LogQuestion, openLog } from './read-log.ts';

export type FileService = ReturnType<typeof createFileService>;

/** Reads the files and logs that jobs produce. */
export function createFileService(deps: FileDeps, metrics: Metrics) {
  const feeds = createLogFeeds(metrics);
  return {
    list: (question: FileQuestion) => listFiles(deps, question),
    open: (question: FileQuestion) => openFile(deps, question),
    archive: (question: FileQuestion) => archiveFiles(deps, question),
    openLog: (question: LogQuestion) => openLog({ ...deps, feeds }, question),
  };
}
