import type { EndRecord } from '../../domain/jobs/end-record.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import type { WorkspacePaths } from '../../files/workspaces/workspaces.ts';
import { type RunCommand, requireOutput } from './commands.ts';
import { outcomeForShellExitCode } from './observation.ts';

/**
 * Prints a line for each job: `<index> never_started`, `<index> not_ended`, or `<index> end <code> <start> <end>`. The
 * wrapper creates `<directory>.started` before anything else of the job runs, and writes the end record into it. A job
 * whose workspace is absent prints nothing: the file system may be unmounted, so nothing is known.
 */
const readRecordsBash = `
index=0
while IFS= read -r -d '' directory; do
  if [ -d "$directory" ]; then
    if [ ! -e "$directory.started" ]; then echo "$index never_started"
    elif [ ! -e "$directory.started/end" ]; then echo "$index not_ended"
    elif IFS= read -r end < "$directory.started/end"; then echo "$index end $end"; fi 2> /dev/null
  fi
  index=$((index + 1))
done`;

/**
 * Reads what the wrappers of jobs wrote, in one command for any number of jobs. `jobs` maps job ids to workspaces. A job
 * that is absent from the result has a workspace or an end record that cannot be read.
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
    const [, index, text = ''] = /^(\d+) (.*)$/.exec(line) ?? [];
    const jobId = jobIds[Number(index)];
    const record = parseRecord(text);
    if (jobId !== undefined && record !== null) records.set(jobId, record);
  }
  return records;
}

/** Returns null for an incomplete end record: a power cut can leave an empty file. */
function parseRecord(text: string): EndRecord | null {
  if (text === 'never_started' || text === 'not_ended') return text;
  const [, code, startedAt, endedAt] = /^end (\d{1,3}) (\d{1,10}) (\d{1,10})$/.exec(text) ?? [];
  return code === undefined ? null : toJobEnd(Number(code), Number(startedAt), Number(endedAt));
}

function toJobEnd(code: number, startSeconds: number, endSeconds: number): JobEnd {
  return {
    ...outcomeForShellExitCode(code),
    startedAt: startSeconds * 1000,
    endedAt: Math.max(startSeconds, endSeconds) * 1000,
    elapsedSeconds: Math.max(1, endSeconds - startSeconds),
  };
}
