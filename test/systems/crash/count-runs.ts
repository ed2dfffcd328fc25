import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** How often each job with a workspace has run, by job id. Each run adds a line to the file `runs` of its workspace. */
export function countRuns(data: string): Record<string, number> {
  const workspaces = join(data, 'workspaces');
  // The server creates the folder after its start, for the first job.
  if (!existsSync(workspaces)) return {};
  return Object.fromEntries(
    readdirSync(workspaces).map((jobId) => {
      const file = join(workspaces, jobId, 'files', 'runs');
      return [jobId, existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').length : 0];
    }),
  );
}
