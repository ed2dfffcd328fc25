import { BursarError } from '../../domain/errors.ts';
import type { RunResult } from '../../shell/shell.ts';
import type { EngineJob, SiteOptions } from '../engine.ts';
import { lastErrorLine, type SlurmCommand, slurmUnavailableError } from './commands.ts';
import type { SlurmIsolation } from './isolation.ts';
import { buildWrapperScript } from './wrapper.ts';

/** Submits a job held, so that it starts only when released. Throws `job_refused` if the command can never run. */
export function sbatchCommand(job: EngineJob, isolation: SlurmIsolation | null): SlurmCommand {
  const { jobId, site, workspace } = job;
  const options = [
    // Site options come first: sbatch uses the last value of a repeated option.
    ...siteArguments(site),
    '--hold',
    '--no-requeue',
    '--parsable',
    `--job-name=${jobId}`,
    `--chdir=${workspace.directory}`,
    `--output=${escapePattern(workspace.stdout)}`,
    `--error=${escapePattern(workspace.stderr)}`,
    // Append, so that not even a second start can truncate the output.
    '--open-mode=append',
    `--nodes=${job.nodes}`,
    // Not --ntasks, which may distribute the tasks unevenly.
    `--ntasks-per-node=${job.coresPerNode}`,
    `--time=${Math.max(1, Math.ceil(job.runtimeSeconds / 60))}`,
  ];
  return { argv: ['sbatch', ...options], stdin: buildWrapperScript(job, isolation) };
}

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

/** sbatch treats output file names as patterns: `%j` is the job id, `%%` is a percent sign. */
const escapePattern = (path: string) => path.replaceAll('%', '%%');

/**
 * Returns the Slurm job id. Throws `job_refused` only if Slurm explicitly rejected the submission, and `queue_full`, which is
 * transient, if the account has as many jobs in Slurm as it may: then the job does not exist. After any other failure the
 * job may or may not exist, and the error is transient.
 */
export function parseSubmittedJobId(result: RunResult): string {
  const [, ref] = /^(\d+)(?:;\S*)?$/m.exec(result.stdout) ?? [];
  if (result.code === 0 && ref !== undefined) return ref;
  if (result.code !== null && submitLimit.test(result.stderr)) {
    const message = `The queue of Slurm is full at the moment (sbatch: ${lastErrorLine(result)})`;
    throw new BursarError('queue_full', message, { transient: true });
  }
  if (result.code === null || result.code === 0 || !isRejection(result.stderr))
    throw slurmUnavailableError('sbatch', result);
  throw new BursarError('job_refused', `Slurm rejected the job: ${rejectionMessage(result)}`);
}

const submissionFailed = /Batch job submission failed: (.+)/i;
const invalidValue = /error: (invalid .+)/i;
const invalidOption = /((?:unrecognized|invalid) option .+)/i;

/** Temporary conditions that sbatch also reports as a failed submission. */
const temporaryFailure =
  /timed out|unable to contact|connect|communication|transmit|transport|unexpected message|temporarily|try again|authenti|munge|credential|controller|database|MaxSubmit|MaxJobCount|job submit limit|in maintenance|not responding|I\/O error|internal error/i;

/** The limits on submitted jobs of an account or a QOS, such as AssocMaxSubmitJobLimit and QOSGrpSubmitJobsLimit. */
const submitLimit = /(?:Max|Grp)SubmitJob/;

function isRejection(stderr: string): boolean {
  const isRejected = [submissionFailed, invalidValue, invalidOption].some((pattern) => pattern.test(stderr));
  return isRejected && !temporaryFailure.test(stderr);
}

function rejectionMessage(result: RunResult): string {
  const failure = submissionFailed.exec(result.stderr)?.[1];
  const detail = invalidValue.exec(result.stderr)?.[1];
  if (failure !== undefined && detail !== undefined) return `${failure} (${detail})`;
  return failure ?? detail ?? invalidOption.exec(result.stderr)?.[1] ?? lastErrorLine(result);
}
