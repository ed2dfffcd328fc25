import type { Check } from '../../domain/systems/finding.ts';
import type { RunResult } from '../../shell/shell.ts';
import { createRunCommand, lastErrorLine } from '../batch/run-command.ts';
import type { DoctorContext } from '../definition.ts';
import { slurmVariables } from './scheduler.ts';
import type { SlurmSettings } from './schema.ts';
import { parsePing } from './scontrol.ts';
import { checkSite, type RunSlurmCommand, requireStdout } from './site-checks.ts';

const requiredCommands = ['sbatch', 'squeue', 'scontrol', 'scancel'];
const maxClockSkewSeconds = 5;

/** Checks a Slurm cluster step by step: connection, commands, clocks, authentication, controller, and each project's site options. */
export async function checkSlurm(check: Check, { system, shell, sites }: DoctorContext<SlurmSettings>): Promise<void> {
  if (shell === null) return;
  const settings = system.engine;
  const commandTimeoutMs = settings.commandTimeoutSeconds * 1000;
  // Through bash, for which a command that is not installed has a result like any other failure.
  const throughBash = { ...shell, environment: null };
  const options = { shell: throughBash, commandTimeoutMs, onCommand: () => undefined };
  const runCommand = createRunCommand(options, slurmVariables);
  const run: RunSlurmCommand = (...argv) => runCommand({ argv }, AbortSignal.timeout(2 * commandTimeoutMs));

  const isReachable = await check(
    `${shell.hostLabel} can be reached`,
    'Run the same ssh command by hand, as the user that Bursar runs as; pin the host key and authorise the public key there.',
    async () => `as ${requireStdout(await run('id', '-un'))}`,
  );
  if (!isReachable || !(await checkCommands(check, run, shell.hostLabel, settings))) return;
  await checkClock(check, `the clock of ${shell.hostLabel} is correct`, async () =>
    requireStdout(await run('date', '+%s')),
  );
  if (!(await checkController(check, run))) return;
  await checkClock(check, 'the clock of the controller is correct', async () => {
    const config = requireStdout(await run('scontrol', 'show', 'config'));
    return /^Configuration data as of (\d+)/.exec(config)?.[1] ?? '';
  });
  for (const [project, site] of sites) {
    await checkSite(check, run, project, site, system.submittedJobsPerUser);
  }
}

async function checkCommands(check: Check, run: RunSlurmCommand, host: string, { accounting }: SlurmSettings) {
  let allInstalled = true;
  for (const command of accounting === 'none' ? requiredCommands : [...requiredCommands, 'sacct']) {
    const fix = `Install the Slurm client commands on ${host}, or add their folder to PATH in engine.environment.`;
    const name = `${command} is installed`;
    const isInstalled = await check(name, fix, async () => requireStdout(await run(command, '--version')));
    allInstalled &&= isInstalled;
  }
  return allInstalled;
}

/** Reports a failed authentication and a controller failure as separate findings, by squeue's error message. */
async function checkController(check: Check, run: RunSlurmCommand): Promise<boolean> {
  const checkAnswer = (read: () => Promise<string>) =>
    check(
      'the controller answers',
      'Check that slurmctld runs and that slurm.conf names its host; set SLURM_CONF in engine.environment if the file is not in /etc/slurm.',
      read,
    );
  const results = await Promise.allSettled([run('squeue', '--me', '-h', '-o', '%i'), run('scontrol', 'ping')]);
  const [squeue, ping] = results.map((result) => (result.status === 'fulfilled' ? result.value : null));
  // A command that hangs is a finding, not the end of all checks. squeue waits for a controller that is down, ping does not.
  if (!squeue || !ping) {
    return await checkAnswer(async () => {
      if (ping) requireController(ping);
      throw firstError(results);
    });
  }
  const error = authenticationError.exec(squeue.stderr)?.[0].replace(/^\w+: error: /, '') ?? null;
  const isAuthenticated = await check('the service account is authenticated', adviseAuthentication(error), async () => {
    if (error !== null) throw new Error(error);
    return 'authenticated';
  });
  return (
    isAuthenticated &&
    (await checkAnswer(async () => {
      const detail = requireController(ping);
      if (squeue.code !== 0) throw new Error(lastErrorLine(squeue));
      return detail;
    }))
  );
}

/** Returns which controller is up, or throws that none is. */
function requireController(ping: RunResult): string {
  const { ok, detail } = parsePing(ping);
  if (!ok) throw new Error(detail);
  return detail;
}

/** `sack`: the socket of auth/slurm. */
const authenticationError = /^.*(munge .*failed|\bsack\b|SACK_SOCKET|credential|authentication).*$/im;

/** Slurm has two ways to authenticate. A message of the controller does not say which one failed. */
function adviseAuthentication(error: string | null): string {
  const munge =
    'Start munged there ("systemctl start munge") with the key of the cluster, and give the service account access to its socket.';
  const slurmKey =
    'Start sackd there ("systemctl start sackd") with the key of the cluster (slurm.key), and give the service account access to its socket in /run/slurm.';
  if (/munge/i.test(error ?? '')) return munge;
  if (/sack/i.test(error ?? '')) return slurmKey;
  return `With AuthType=auth/munge: ${munge} With AuthType=auth/slurm: ${slurmKey}`;
}

const firstError = (results: readonly PromiseSettledResult<unknown>[]): unknown =>
  results.find((result) => result.status === 'rejected')?.reason;

/**
 * Slurm rejects credentials if clocks differ too much, and jobs are charged by Slurm's times. The time is read at an unknown moment
 * while the command runs, which can take long on a busy host.
 */
function checkClock(check: Check, name: string, readSeconds: () => Promise<string>): Promise<boolean> {
  return check(name, 'Synchronise all machines with the same NTP server.', async () => {
    const before = Date.now() / 1000;
    const seconds = await readSeconds();
    const after = Date.now() / 1000;
    if (!/^\d+$/.test(seconds)) throw new Error('its time cannot be read');
    const ahead = Math.round(Number(seconds) - after);
    const behind = Math.round(before - Number(seconds));
    if (ahead > maxClockSkewSeconds) throw new Error(`it is ${ahead} s ahead`);
    if (behind > maxClockSkewSeconds) throw new Error(`it is ${behind} s behind`);
    return `within ${maxClockSkewSeconds} s`;
  });
}
