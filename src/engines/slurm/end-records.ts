import type { EndRecord } from '../../domain/jobs/end-record.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import type { WorkspacePaths } from '../../files/workspaces/workspaces.ts';
import { type RunCommand, requireOutput } from './commands.ts';
import { outcomeForShellExitCode } from './observation.ts';

/**
 * Prints `index` for a job that never started, and `index code start end` for one that has an end record. The wrapper
 * creates `<directory>.started` before anything else of the job runs, and writes the end record into it. A job whose
 * workspace is absent prints nothing: the file system may be unmounted, so nothing is known.
 */
const readRecordsBash = `
index=0
while IFS= read -r -d '' directory; do
  if [ -d "$directory" ]; then
    if [ ! -e "$directory.started" ]; then echo "$index"
    elif IFS= read -r end < "$directory.started/end"; then echo "$index $end"; fi 2> /dev/null
  fi
  index=$((index + 1))
done`;

/**
 * Reads what the wrappers of jobs wrote, in one command for any number of jobs. `jobs` maps job ids to workspaces. A job
 * that is absent from the result has started and not ended, or its workspace cannot be read.
 */
export async function readEndRecords(
  run: RunCommand,
  jobs: ReadonlyMap<string, WorkspacePaths>,
  signal: AbortSignal,
): Promise<Map<string, EndRecord>> {
  const records = new Map<string, EndRecord>();
  if (jobs.size === 0) return records;
  const jobIds = [...jobs.keys()];
  const stdin = [...jobs.values()].map(({ directory }) => `${directory}\0`).join('');
  // --norc: see `createRunCommand`.
  const argv = ['bash', '--norc', '-c', readRecordsBash] as const;
  const output = requireOutput('bash', await run({ argv, stdin }, signal));
  for (const line of output.split('\n')) {
    // Ignores an incomplete end record: a power cut can leave an empty file.
    const [, index, code, startedAt, endedAt] = /^(\d+)(?: (\d{1,3}) (\d{1,10}) (\d{1,10}))?$/.exec(line) ?? [];
    const jobId = jobIds[Number(index)];
    if (index === undefined || jobId === undefined) continue;
    records.set(
      jobId,
      code === undefined ? 'never_started' : toJobEnd(Number(code), Number(startedAt), Number(endedAt)),
    );
  }
  return records;
}

function toJobEnd(code: number, startSeconds: number, endSeconds: number): JobEnd {
  return {
    ...outcomeForShellExitCode(code),
    startedAt: startSeconds * 1000,
    endedAt: Math.max(startSeconds, endSeconds) * 1000,
    elapsedSeconds: Math.max(1, endSeconds - startSeconds),
  };
}
