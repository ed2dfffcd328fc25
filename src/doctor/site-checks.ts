import type { SiteOptions } from '../engines/engine.ts';
import { lastErrorLine } from '../engines/slurm/commands.ts';
import { siteArguments } from '../engines/slurm/sbatch.ts';
import type { RunResult } from '../shell/shell.ts';
import type { Check } from './finding.ts';

/** Runs a command of Slurm, as the engine does. */
export type RunSlurmCommand = (...argv: [string, ...string[]]) => Promise<RunResult>;

/** The output of a command that worked. */
export function requireStdout(result: RunResult): string {
  if (result.code !== 0) throw new Error(lastErrorLine(result));
  return result.stdout.trim();
}

/** Whether the jobs of a project can go where the configuration sends them. */
export async function checkSite(check: Check, ask: RunSlurmCommand, project: string, site: SiteOptions): Promise<void> {
  const { partition, account } = site;
  const named = [
    partition === undefined || (await checkPartition(check, ask, project, partition)),
    account === undefined || (await checkAccount(check, ask, project, account)),
  ];
  if (named.includes(false)) return;
  await check(
    `Slurm takes jobs of ${project}`,
    'Correct the site of the system or of the project in the configuration, or ask the administrators of the cluster.',
    async () => {
      const { code, stdout, stderr } = await ask('sbatch', '--test-only', ...siteArguments(site), '--wrap=true');
      const said = (stderr || stdout).trim().split('\n').at(-1) ?? '';
      if (code !== 0) throw new Error(said);
      return said.replace(/^sbatch: (Job \d+ )?/, 'one could ').replace(/to start at \d+/, 'start');
    },
  );
}

function checkPartition(check: Check, ask: RunSlurmCommand, project: string, partition: string): Promise<boolean> {
  return check(
    `partition ${partition} of ${project} exists`,
    'Correct site.partition, or ask the administrators of the cluster for it; "sinfo" lists those there are.',
    async () => {
      const found = requireStdout(await ask('sinfo', '-h', '-p', partition, '-o', '%P %a %D nodes'));
      if (found === '') throw new Error('there is no such partition');
      return found;
    },
  );
}

function checkAccount(check: Check, ask: RunSlurmCommand, project: string, account: string): Promise<boolean> {
  return check(
    `account ${account} of ${project} is open to the service account`,
    `Correct site.account, or ask for the service account to be added to it ("sacctmgr add user … account=${account}").`,
    async () => {
      const user = requireStdout(await ask('id', '-un'));
      const result = await ask('sacctmgr', '-n', '-P', 'show', 'assoc', `account=${account}`, 'format=account,user');
      // Without slurmdbd there are no accounts, and Slurm takes any name.
      if (/not running a supported accounting_storage/.test(result.stderr)) return 'Slurm keeps no accounts here';
      const members = requireStdout(result).split('\n').filter(Boolean);
      if (members.length === 0) throw new Error('there is no such account');
      if (!members.includes(`${account}|${user}`)) throw new Error(`${user} does not belong to it`);
      return `${user} belongs to it`;
    },
  );
}
