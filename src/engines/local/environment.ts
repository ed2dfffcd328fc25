import { userInfo } from 'node:os';
import { delimiter, isAbsolute } from 'node:path';
import type { EngineJob } from '../engine.ts';

/** The environment of a job: nothing of Bursar's own, which may hold secrets, but where to look for programs. */
export function jobEnvironment(job: EngineJob): { PATH: string; TMPDIR: string } & Record<string, string> {
  const user = userName();
  return {
    PATH: programPath(process.env.PATH),
    HOME: job.workspace.directory,
    TMPDIR: scratchFolderOf(job),
    LANG: 'C.UTF-8',
    USER: user,
    LOGNAME: user,
    BURSAR_JOB_ID: job.jobId,
    BURSAR_NODES: String(job.nodes),
    BURSAR_CORES_PER_NODE: String(job.coresPerNode),
    BURSAR_RUNTIME_SECONDS: String(job.runtimeSeconds),
  };
}

/** A supervisor must not carry a job's id: it would be taken for one of the job's processes. */
export function supervisorEnvironment(cacheFolder: string): Record<string, string> {
  // The cache halves the time it takes to start.
  return { PATH: process.env.PATH ?? usualPath, NODE_COMPILE_CACHE: cacheFolder };
}

/** The job's own folder for temporary files: beside the workspace, so that it is no part of the results. */
export function scratchFolderOf(job: EngineJob): string {
  return `${job.workspace.directory}.tmp`;
}

const usualPath = '/usr/local/bin:/usr/bin:/bin';

/** Bursar's PATH without what npm has put in front: a job must not come to depend on Bursar's own tools. */
export function programPath(path: string | undefined): string {
  const folders = (path ?? '')
    .split(delimiter)
    .filter((folder) => isAbsolute(folder) && !/\bnode_modules\b/.test(folder));
  return folders.join(delimiter) || usualPath;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown'); // a container may run as a user without a name
  }
}
