import { delimiter, isAbsolute } from 'node:path';
import { defaultPath, userName } from '../../shell/base-environment.ts';
import type { EngineJob } from '../engine.ts';

/** Of Bursar's own environment only PATH is passed on: the rest may contain secrets. */
export function jobEnvironment(
  job: EngineJob,
  user: string = userName(),
): { PATH: string; TMPDIR: string } & Record<string, string> {
  return {
    PATH: jobSearchPath(process.env.PATH),
    HOME: job.workspace.directory,
    TMPDIR: scratchFolder(job),
    LANG: 'C.UTF-8',
    USER: user,
    LOGNAME: user,
    BURSAR_JOB_ID: job.jobId,
    BURSAR_NODES: String(job.nodes),
    BURSAR_CORES_PER_NODE: String(job.coresPerNode),
    BURSAR_RUNTIME_SECONDS: String(job.runtimeSeconds),
  };
}

/** Must not contain a job id, or the supervisor would count as a process of the job. */
export function supervisorEnvironment(): Record<string, string> {
  const { PATH = defaultPath, NODE_COMPILE_CACHE } = process.env;
  // Files of a job that hang in the kernel keep a thread each.
  return { PATH, UV_THREADPOOL_SIZE: '16', ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }) };
}

/** The job's folder for temporary files, outside its working directory so that it is not part of the results. */
export function scratchFolder(job: EngineJob): string {
  return `${job.workspace.directory}.tmp`;
}

/** Bursar's PATH without the folders that npm adds, so that jobs cannot depend on Bursar's own tools. */
export function jobSearchPath(path: string | undefined): string {
  const folders = (path ?? '')
    .split(delimiter)
    .filter((folder) => isAbsolute(folder) && !/\bnode_modules\b/.test(folder));
  return folders.join(delimiter) || defaultPath;
}
