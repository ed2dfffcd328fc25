import { BursarError } from '../../domain/errors.ts';
import type { RunResult } from '../../shell/shell.ts';
import { type BatchCommand, lastErrorLine } from '../batch/run-command.ts';
import type { EngineJob } from '../engine.ts';
import type { SlurmSite } from './schema.ts';

/** Submits a job held, so that it starts only when released. */
export function sbatchCommand(job: EngineJob, script: string): BatchCommand {
  const { jobId, site, workspace } = job;
  const options = [
    // Site options come first: sbatch uses the last value of a repeated option.
    ...siteArguments(site as SlurmSite),
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
  return { argv: ['sbatch', ...options], stdin: script };
}

export function siteArguments({ extraOptions = [], partition, account, qos, constraint }: SlurmSite): string[] {
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

/** As `parseSubmission` of a `BatchScheduler` must. */
export function parseSubmittedJobId(result: RunResult): string {
  const { code, stdout, stderr } = result;
  const [, ref] = /^(\d+)(?:;\S*)?$/m.exec(stdout) ?? [];
  if (code === 0 && ref !== undefined) return ref;
  const description = describeFailure(result);
  if (code === null || code === 0) throw notAccepted(description);
  if (submitLimit.test(stderr)) {
    const message = `The queue of Slurm is full at the moment (sbatch: ${description})`;
    throw new BursarError('queue_full', message, { transient: true });
  }
  const failure = submissionFailed.exec(stderr)?.[1] ?? '';
  if (jobRefusals.has(failure) || jobLimit.test(stderr)) {
    throw new BursarError('job_refused', `Slurm rejected the job: ${description}`);
  }
  if (siteRefusals.has(failure) || invalidOption.test(stderr)) {
    const message = `Slurm rejects the options that are configured for this system (sbatch: ${description}). Contact the operators: the job waits until they are corrected.`;
    throw new BursarError('invalid_config', message);
  }
  throw notAccepted(description);
}

const notAccepted = (description: string) =>
  new BursarError('unavailable', `Slurm does not accept the job at the moment (sbatch: ${description})`, {
    transient: true,
  });

const submissionFailed = /^sbatch: error: Batch job submission failed: (.+)$/m;

/**
 * The messages of Slurm about the nodes, cores and time of a job, which are the same in Slurm 22.05 and 26.05: only these
 * depend on the job. Every other message can be that of a controller that is killed, stopped or misconfigured.
 */
const jobRefusals = new Set([
  'CPU count specification invalid',
  'Memory required by task is not available',
  'More processors requested than permitted',
  'Node count specification invalid',
  'Requested node configuration is not available',
  'Requested time limit is invalid (missing or exceeds some limit)',
  'Task count specification invalid',
]);

/** The limits of an account or a QOS on a single job, such as QOSMaxWallDurationPerJobLimit and AssocMaxCpuPerNode. */
const jobLimit = /^sbatch: error: (?:(?:Assoc|QOS)Max\w+Per(?:Job|Node)(?:Limit)?|QOSMin\w+)$/m;

/** The limits on submitted jobs of an account or a QOS, such as AssocMaxSubmitJobLimit and QOSGrpSubmitJobsLimit. */
const submitLimit = /(?:Max|Grp)SubmitJob/;

/** The messages about options that only operators set. A controller without its database also reports invalid accounts. */
const siteRefusals = new Set([
  'Access denied to requested reservation',
  'Access/permission denied',
  'Invalid account or account/partition combination specified',
  'Invalid feature specification',
  'Invalid generic resource (gres) specification',
  'Invalid license specification',
  'Invalid node name specified',
  'Invalid partition name specified',
  'Invalid qos specification',
  'Invalid wckey specification',
  'No partition specified or system default partition',
  'Requested nodes not in this partition',
  'Requested reservation is invalid',
  "User's group not permitted to use this partition",
]);

/** An option or a value that sbatch itself does not know. */
const invalidOption = /^sbatch: (?:(?:unrecognized|invalid|ambiguous) option|error: invalid ) ?.+$/im;

/** The message of Slurm, with the further lines of the controller or of a plugin of the site in parentheses. */
function describeFailure(result: RunResult): string {
  const failure = submissionFailed.exec(result.stderr)?.[1] ?? '';
  const lines = result.stderr.split('\n').map((line) => line.trim().replace(/^sbatch: (?:error: )?/, ''));
  const details = lines.filter((line) => line !== '' && !/^Batch job submission failed|^Try "sbatch/i.test(line));
  const detail = [...new Set(details)].join('; ').slice(0, maxDetailLength);
  if (failure === '') return detail === '' ? lastErrorLine(result) : detail;
  return detail === '' ? failure : `${failure} (${detail})`;
}

const maxDetailLength = 300;
