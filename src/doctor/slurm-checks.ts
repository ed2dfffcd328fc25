import type { SlurmEngineConfig } from '../config/schema.ts';
import type { SiteOptions } from '../engines/engine.ts';
import type { Shell } from '../shell/shell.ts';
import { type Finding, finding } from './finding.ts';

const limits = { timeoutMs: 20_000, maxOutputBytes: 1_000_000 };
const commands = ['sbatch', 'squeue', 'scontrol', 'scancel'];
const worstSkewSeconds = 5;

/** Everything that must be true of a Slurm cluster before a job can go there, from the near to the far. */
export async function checkSlurm(
  shell: Shell,
  settings: SlurmEngineConfig,
  sites: ReadonlyMap<string, SiteOptions>,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  const run = async (argv: readonly string[]) => {
    const { code, stdout, stderr } = await shell.run(argv, { ...limits, signal: AbortSignal.timeout(30_000) });
    if (code !== 0) throw new Error(`${argv.join(' ')}: ${(stderr || stdout).trim() || `exit code ${code}`}`);
    return stdout.trim();
  };
  const check = async (name: string, fix: string, look: () => Promise<string>) => {
    const result = await finding(name, fix, look);
    findings.push(result);
    return result.ok;
  };

  const reached = await check(
    `${shell.place} can be reached`,
    'Try the same with ssh by hand, as the user that Bursar runs as; pin the host key and allow the public key there.',
    () => run(['true']),
  );
  if (!reached) return findings;
  const needed = settings.accounting === 'none' ? commands : [...commands, 'sacct'];
  for (const command of needed) {
    await check(
      `${command} is there`,
      `Install the Slurm clients on ${shell.place}, or put their folder on the PATH of the service account.`,
      () => run([command, '--version']),
    );
  }
  await check(
    'munge vouches for the service account',
    'Start munged, with the key of the cluster, and see that the service account may use its socket.',
    async () =>
      (await run(['munge', '-n'])).startsWith('MUNGE:') ? 'it does' : Promise.reject(new Error('no credential')),
  );
  await check(
    'the controller answers',
    'See that slurmctld runs, and that slurm.conf names it; set SLURM_CONF in engine.environment if it is not in /etc/slurm.',
    () => run(['scontrol', 'ping']),
  );
  for (const [project, site] of sites) await checkSite(check, run, project, site);
  await check('the clocks agree', 'Keep both machines on the time of one NTP server.', async () => {
    const skew = Math.abs(Number(await run(['date', '+%s'])) - Date.now() / 1000);
    if (skew > worstSkewSeconds) throw new Error(`they are ${Math.round(skew)} s apart`);
    return `within ${worstSkewSeconds} s`;
  });
  return findings;
}

async function checkSite(
  check: (name: string, fix: string, look: () => Promise<string>) => Promise<boolean>,
  run: (argv: readonly string[]) => Promise<string>,
  project: string,
  { partition, account }: SiteOptions,
): Promise<void> {
  if (partition !== undefined) {
    await check(
      `partition ${partition} of ${project} exists`,
      'Correct site.partition, or ask the administrators of the cluster for it; "sinfo" lists those there are.',
      async () => {
        const found = await run(['sinfo', '-h', '-p', partition, '-o', '%P %a %D nodes']);
        if (found === '') throw new Error('there is no such partition');
        return found;
      },
    );
  }
  if (account !== undefined) {
    await check(
      `account ${account} of ${project} exists`,
      'Correct site.account, or ask for the service account to be added to it (sacctmgr add user … account=…).',
      async () => {
        const found = await run(['sacctmgr', '-n', '-P', 'show', 'assoc', `account=${account}`, 'format=account,user']);
        if (found === '') throw new Error('there is no such account');
        return `${found.split('\n').length} associations`;
      },
    );
  }
}
