import type { SlurmEngineConfig } from '../config/system-schema.ts';
import type { SiteOptions } from '../engines/engine.ts';
import { createRunCommand, lastErrorLine } from '../engines/slurm/commands.ts';
import { parsePing } from '../engines/slurm/scontrol.ts';
import type { Shell } from '../shell/shell.ts';
import type { Check } from './finding.ts';
import { checkSite, type RunSlurmCommand, requireStdout } from './site-checks.ts';

const commands = ['sbatch', 'squeue', 'scontrol', 'scancel'];
const worstSkewSeconds = 5;

/** Everything that must be true of a Slurm cluster before a job can go there, from the near to the far. */
export async function checkSlurm(
  check: Check,
  shell: Shell,
  settings: SlurmEngineConfig,
  sites: ReadonlyMap<string, SiteOptions>,
): Promise<void> {
  const commandTimeoutMs = settings.commandTimeoutSeconds * 1000;
  const run = createRunCommand({ shell, commandTimeoutMs, onCommand: () => undefined });
  const ask: RunSlurmCommand = (...argv) => run({ argv }, AbortSignal.timeout(2 * commandTimeoutMs));

  const reached = await check(
    `${shell.hostLabel} can be reached`,
    'Try the same with ssh by hand, as the user that Bursar runs as; pin the host key and allow the public key there.',
    async () => `as ${requireStdout(await ask('id', '-un'))}`,
  );
  if (!reached || !(await checkCommands(check, ask, shell.hostLabel, settings))) return;
  await checkClock(check, `the clock of ${shell.hostLabel} agrees`, async () =>
    requireStdout(await ask('date', '+%s')),
  );
  if (!(await checkController(check, ask))) return;
  await checkClock(check, 'the clock of the controller agrees', async () => {
    const [, seconds] =
      /^Configuration data as of (\d+)/.exec(requireStdout(await ask('scontrol', 'show', 'config'))) ?? [];
    return seconds ?? '';
  });
  for (const [project, site] of sites) await checkSite(check, ask, project, site);
}

async function checkCommands(check: Check, ask: RunSlurmCommand, place: string, { accounting }: SlurmEngineConfig) {
  let all = true;
  for (const command of accounting === 'none' ? commands : [...commands, 'sacct']) {
    const fix = `Install the Slurm clients on ${place}, or put their folder on the PATH in engine.environment.`;
    const found = await check(`${command} is there`, fix, async () => requireStdout(await ask(command, '--version')));
    all &&= found;
  }
  return all;
}

/** Slurm's commands tell apart who did not vouch for them and who did not answer. */
async function checkController(check: Check, ask: RunSlurmCommand): Promise<boolean> {
  const listing = await ask('squeue', '--me', '-h', '-o', '%i');
  const ping = await ask('scontrol', 'ping');
  const vouched = await check(
    'munge vouches for the service account',
    'Start munged there ("systemctl start munge"), with the key of the cluster, and let the service account use its socket.',
    async () => {
      const refusal = /^.*(munge .*failed|credential|authentication).*$/im.exec(listing.stderr);
      if (refusal !== null) throw new Error(refusal[0].replace(/^\w+: error: /, ''));
      return 'it does';
    },
  );
  return (
    vouched &&
    (await check(
      'the controller answers',
      'See that slurmctld runs, and that slurm.conf names it; set SLURM_CONF in engine.environment if it is not in /etc/slurm.',
      async () => {
        const { ok, detail } = parsePing(ping);
        if (!ok) throw new Error(detail);
        if (listing.code !== 0) throw new Error(lastErrorLine(listing));
        return detail;
      },
    ))
  );
}

/** Slurm and munge go by the clock, and so does what jobs are charged. */
function checkClock(check: Check, name: string, secondsThere: () => Promise<string>): Promise<boolean> {
  return check(name, 'Keep all machines on the time of one NTP server.', async () => {
    const seconds = await secondsThere();
    if (!/^\d+$/.test(seconds)) throw new Error('it does not say what time it is');
    const skew = Math.round(Number(seconds) - Date.now() / 1000);
    if (Math.abs(skew) > worstSkewSeconds)
      throw new Error(`it is ${Math.abs(skew)} s ${skew > 0 ? 'ahead' : 'behind'}`);
    return `within ${worstSkewSeconds} s`;
  });
}
