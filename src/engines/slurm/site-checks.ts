import { type Check, Warning } from '../../domain/systems/finding.ts';
import type { RunResult } from '../../shell/shell.ts';
import { lastErrorLine } from '../batch/run-command.ts';
import { siteArguments } from './sbatch.ts';
import type { SlurmSite } from './schema.ts';

/** Runs a command on the host of the Slurm commands, as the engine does. */
export type RunSlurmCommand = (...argv: [string, ...string[]]) => Promise<RunResult>;

/** Returns the trimmed stdout, or throws the last error line if the command failed. */
export function requireStdout(result: RunResult): string {
  if (result.code !== 0) throw new Error(lastErrorLine(result));
  return result.stdout.trim();
}

/** Checks that Slurm accepts the jobs of a project with the configured partition, account and other options. */
export async function checkSite(
  check: Check,
  run: RunSlurmCommand,
  project: string,
  site: SlurmSite,
  submittedJobsPerUser: number,
): Promise<void> {
  const { partition, account } = site;
  const results = [
    partition === undefined || (await checkPartition(check, run, project, partition)),
    account === undefined || (await checkAccount(check, run, project, account)),
  ];
  if (results.includes(false)) return;
  await checkSubmitLimit(check, run, project, account, submittedJobsPerUser);
  await check(
    `Slurm accepts jobs of ${project}`,
    'Correct the site of the system or of the project in the configuration, or ask the administrators of the cluster.',
    async () => {
      const { code, stdout, stderr } = await run('sbatch', '--test-only', ...siteArguments(site), '--wrap=true');
      const lastLine = (stderr || stdout).trim().split('\n').at(-1) ?? '';
      if (code !== 0) throw new Error(lastLine);
      // `sbatch: Job 7 to start at 2026-11-17T18:02:22 using…`; 26.05 prints one more word before `using`.
      return lastLine.replace(/^sbatch: Job \d+ to start at .* using/, 'a job could start using');
    },
  );
}

function checkPartition(check: Check, run: RunSlurmCommand, project: string, partition: string): Promise<boolean> {
  return check(
    `partition ${partition} of ${project} exists`,
    'Correct site.partition, or ask the administrators of the cluster to create it; "sinfo" lists all partitions.',
    async () => {
      const output = requireStdout(await run('sinfo', '-h', '-p', partition, '-o', '%P %a %D nodes'));
      if (output === '') throw new Error('no such partition');
      return output;
    },
  );
}

function checkAccount(check: Check, run: RunSlurmCommand, project: string, account: string): Promise<boolean> {
  return check(
    `the service account may use account ${account} of ${project}`,
    `Correct site.account, or ask for the service account to be added to it ("sacctmgr add user … account=${account}").`,
    async () => {
      const user = requireStdout(await run('id', '-un'));
      const result = await run('sacctmgr', '-n', '-P', 'show', 'assoc', `account=${account}`, 'format=account,user');
      // Without slurmdbd there are no accounts, and Slurm accepts any name.
      if (hasNoAccounts(result)) return 'this cluster has no accounts';
      const associations = requireStdout(result).split('\n').filter(Boolean);
      if (associations.length === 0) throw new Error('no such account');
      if (!associations.includes(`${account}|${user}`)) throw new Error(`${user} is not a member`);
      return `${user} is a member`;
    },
  );
}

const hasNoAccounts = ({ stderr }: RunResult) => /not running a supported accounting_storage/.test(stderr);

/** All users share the association of the service account, so one of them could take all of its places. */
function checkSubmitLimit(
  check: Check,
  run: RunSlurmCommand,
  project: string,
  account: string | undefined,
  submittedJobsPerUser: number,
): Promise<boolean> {
  return check(
    `one user of ${project} cannot take all places of the service account`,
    'Set submittedJobsPerUser of the system well below MaxSubmitJobs of the association, or ask for a larger MaxSubmitJobs.',
    async () => {
      const user = requireStdout(await run('id', '-un'));
      const condition = [`user=${user}`, ...(account === undefined ? [] : [`account=${account}`])];
      const result = await run('sacctmgr', '-n', '-P', 'show', 'assoc', ...condition, 'format=maxsubmit');
      if (hasNoAccounts(result)) return 'this cluster has no accounts';
      // The command is not needed for anything else if no account is configured.
      if (result.code !== 0) return `MaxSubmitJobs cannot be read (${lastErrorLine(result)})`;
      const limit = findSmallestLimit(result.stdout);
      if (limit === undefined) return 'MaxSubmitJobs is not set';
      const detail = `MaxSubmitJobs is ${limit}, and submittedJobsPerUser is ${submittedJobsPerUser}`;
      if (limit <= submittedJobsPerUser) throw new Warning(detail);
      return detail;
    },
  );
}

/** An association without a limit has an empty line. */
function findSmallestLimit(output: string): number | undefined {
  const limits = output.split('\n').flatMap((line) => (/^\d+$/.test(line.trim()) ? [Number(line)] : []));
  return limits.length === 0 ? undefined : Math.min(...limits);
}
