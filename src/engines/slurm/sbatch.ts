import { BursarError } from '../../domain/errors.ts';
import type { RunResult } from '../../shell/shell.ts';
import type { EngineJob, SiteOptions } from '../engine.ts';
import { lastErrorLine, type SlurmCommand, unavailableError } from './commands.ts';
import { buildWrapperScript } from './wrapper.ts';

/** Submits a job, held: it runs when it is released. Throws `job_refused` when its command cannot be run anywhere. */
export function sbatchCommand(job: EngineJob): SlurmCommand {
  const { jobId, site, workspace } = job;
  const options = [
    // The operator's first: of an option that is given twice the last counts.
    ...siteArguments(site),
    '--hold',
    '--no-requeue',
    '--parsable',
    `--job-name=${jobId}`,
    `--chdir=${workspace.directory}`,
    `--output=${literal(workspace.stdout)}`,
    `--error=${literal(workspace.stderr)}`,
    // So that nothing, not even a second run, can empty what is there.
    '--open-mode=append',
    `--nodes=${job.nodes}`,
    // Not --ntasks: that may spread them unevenly.
    `--ntasks-per-node=${job.coresPerNode}`,
    `--time=${Math.max(1, Math.ceil(job.runtimeSeconds / 60))}`,
  ];
  return { argv: ['sbatch', ...options], stdin: buildWrapperScript(job) };
}

/** Where the operator wants a job to go. */
export function siteArguments({ extraOptions = [], partition, account, qos, constraint }: SiteOptions): string[] {
  return [
    ...extraOptions,
    ...option('--partition', partition),
    ...option('--account', account),
    ...option('--qos', qos),
    ...option('--constraint', constraint),
  ];
}

const option = (name: string, value: string | undefined) => (value === undefined ? [] : [`${name}=${value}`]);

/** The names of output files are patterns: `%j` is the job's number, `%%` is a %. */
const literal = (path: string) => path.replaceAll('%', '%%');

/**
 * The job's id. Only what Slurm says no to in so many words is refused for good; after anything else the job may be
 * there or not.
 */
export function parseSubmittedJobId(result: RunResult): string {
  const [, ref] = /^(\d+)(?:;\S*)?$/m.exec(result.stdout) ?? [];
  if (result.code === 0 && ref !== undefined) return ref;
  if (result.code === null || result.code === 0 || !isRefusal(result.stderr)) throw unavailableError('sbatch', result);
  throw new BursarError('job_refused', `Slurm refuses it: ${refusalIn(result)}`);
}

const refusal = /Batch job submission failed: (.+)|error: (invalid .+)|(unrecognized option .+|invalid option .+)/i;

/** What passes by itself, though sbatch calls it a failed submission. */
const passing =
  /timed out|unable to contact|connect|communication|transmit|transport|unexpected message|temporarily|try again|authenti|munge|credential|controller|database|MaxSubmit|MaxJobCount|job submit limit|in maintenance|not responding|I\/O error|internal error/i;

function isRefusal(stderr: string): boolean {
  return refusal.test(stderr) && !passing.test(stderr);
}

function refusalIn(result: RunResult): string {
  const [, failed, invalid, unknown] = refusal.exec(result.stderr) ?? [];
  const failure = /Batch job submission failed: (.+)/.exec(result.stderr)?.[1];
  const detail = /error: (invalid .+)/i.exec(result.stderr)?.[1];
  if (failure !== undefined && detail !== undefined) return `${failure} (${detail})`;
  return failed ?? invalid ?? unknown ?? lastErrorLine(result);
}
