import { type Check, Warning } from '../../domain/systems/finding.ts';
import type { RunResult } from '../../shell/shell.ts';
import { createRunCommand, lastErrorLine } from '../batch/run-command.ts';
import type { DoctorContext } from '../definition.ts';
import { siteArguments } from './sbatch.ts';
import { slurmVariables } from './scheduler.ts';
import type { SlurmSettings, SlurmSite } from './schema.ts';

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
  const tools = { check, run };

  const isReachable = await check(
    `${shell.hostLabel} can be reached`,
    'Run the same ssh command by hand, as the user that Bursar runs as; pin the host key and authorise the public key there.',
    async () => `as ${requireStdout(await run('id', '-un'))}`,
  );
  if (!isReachable || !(await checkCommands(tools, shell.hostLabel, settings))) return;
  await checkClock(check, `the clock of ${shell.hostLabel} is correct`, async () =>
    requireStdout(await run('date', '+%s')),
  );
  if (!(await checkController(tools))) return;
  await checkClock(check, 'the clock of the controller is correct', async () => {
    const config = requireStdout(await run('scontrol', 'show', 'config'));
    return /^Configuration data as of (\d+)/.exec(config)?.[1] ?? '';
  });
  for (const [project, site] of sites) await checkSite(tools, project, site, system.submittedJobsPerUser);
}

interface Tools {
  check: Check;
  run: RunSlurmCommand;
}

/** Runs a command on the host of the Slurm commands, as the engine does. */
type RunSlurmCommand = (...argv: [string, ...string[]]) => Promise<RunResult>;

async function checkCommands({ check, run }: Tools, host: string, { accounting }: SlurmSettings) {
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
async function checkController({ check, run }: Tools): Promise<boolean> {
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

/**
 * Returns which controller is up, or throws that none is. There is a line for each, such as `Slurmctld(primary) at head1 is UP`, and
 * one that is up is enough.
 */
export function requireController(ping: RunResult): string {
  const controllers = [...ping.stdout.matchAll(/^Slurmctld\((\w+)\) at (\S+) is (UP|DOWN)/gm)];
  const up = controllers.find(([, , , state]) => state === 'UP');
  if (up !== undefined) return `slurmctld on ${up[2]} (${up[1]}) is up`;
  const hosts = controllers.map(([, , host]) => host).join(', ');
  throw new Error(hosts === '' ? lastErrorLine(ping) : `slurmctld on ${hosts} is down`);
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

/** Returns the trimmed stdout, or throws the last error line if the command failed. */
function requireStdout(result: RunResult): string {
  if (result.code !== 0) throw new Error(lastErrorLine(result));
  return result.stdout.trim();
}

/** Checks that Slurm accepts the jobs of a project with the configured partition, account and other options. */
async function checkSite(tools: Tools, project: string, site: SlurmSite, submittedJobsPerUser: number): Promise<void> {
  const { check, run } = tools;
  const { partition, account } = site;
  const results = [
    partition === undefined || (await checkPartition(tools, project, partition)),
    account === undefined || (await checkAccount(tools, project, account)),
  ];
  if (results.includes(false)) return;
  await checkSubmitLimit(tools, project, account, submittedJobsPerUser);
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

function checkPartition({ check, run }: Tools, project: string, partition: string): Promise<boolean> {
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

function checkAccount({ check, run }: Tools, project: string, account: string): Promise<boolean> {
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
function checkSubmitLimit({ check, run }: Tools, project: string, account: string | undefined, perUser: number) {
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
      const detail = `MaxSubmitJobs is ${limit}, and submittedJobsPerUser is ${perUser}`;
      if (limit <= perUser) throw new Warning(detail);
      return detail;
    },
  );
}

/** An association without a limit has an empty line. */
function findSmallestLimit(output: string): number | undefined {
  const limits = output.split('\n').flatMap((line) => (/^\d+$/.test(line.trim()) ? [Number(line)] : []));
  return limits.length === 0 ? undefined : Math.min(...limits);
}
