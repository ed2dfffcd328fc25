import { archiveFiles, listFiles, openFile } from './read-files.ts';
import { type LogDeps, openLog } from './read-log.ts';

/** All that reads what jobs leave behind. */
export function fileService(deps: LogDeps) {
  return {
    listFiles: listFiles.bind(null, deps),
    openFile: openFile.bind(null, deps),
    archiveFiles: archiveFiles.bind(null, deps),
    openLog: openLog.bind(null, deps),
  };
}
