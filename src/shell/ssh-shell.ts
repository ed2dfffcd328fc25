import { basename } from 'node:path';
import { pipeline, type Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BursarError } from '../domain/errors.ts';
import { baseEnvironment } from './base-environment.ts';
import { keepInput, type ProcessSetting, type RunningProcess } from './process.ts';
import { createUnmarking, type RemoteReport, readMarked, readReport, wrapCommand } from './remote-command.ts';
import { runProcess } from './run-process.ts';
import type { RunOptions, RunResult, Shell } from './shell.ts';
import { interrupted, tooSlow, unavailable } from './shell-errors.ts';
import { createSshConnection } from './ssh-connection.ts';
import { connectionError } from './ssh-errors.ts';
import { type SshTarget, sshArgv } from './ssh-target.ts';
import { streamProcess } from './stream-process.ts';
import { createTurns } from './turns.ts';

export interface SshShellOptions extends SshTarget {
  /** Of the commands there, such as SLURM_CONF, beside what the account's own start-up files set. */
  environment: Record<string, string>;
}

/** sshd allows ten sessions on a connection unless told otherwise. What goes beyond it, ssh connects anew for. */
const maxRunning = 8;
/** Room for the marks, and for what start-up files print. */
const extraBytes = 65_536;
/** How long a command that is to be ended may keep its caller waiting, where the host does not answer. */
const killPatienceMs = 5000;

/**
 * Runs programs on another host by OpenSSH's client, over one shared connection that is made when it is needed and
 * made again when it was lost. The account's login shell must be a POSIX one; nothing in a command is ever
 * interpreted by it. A command that is ended is killed over there with its process group, if the host can be
 * reached. As shells tell signals by codes from 129 to 192, those are given as null.
 */
export function createSshShell({ environment, ...target }: SshShellOptions): Shell {
  const ownEnvironment = { ...baseEnvironment(), ...agentOf(process.env.SSH_AUTH_SOCK) };
  const connection = createSshConnection(target, ownEnvironment);
  const turns = createTurns(maxRunning);
  // One kill makes room on the connection for the next; all at once would need connections of their own.
  const killTurns = createTurns(2);
  const kills = new Set<Promise<void>>();

  function prepare(argv: readonly string[]) {
    const { text, mark } = wrapCommand(argv, environment);
    const what = `${basename(argv[0] ?? '')} on ${target.host}`;
    const setting: ProcessSetting = {
      environment: ownEnvironment,
      what,
      beforeKill: async (process, stderr) => {
        const kill = killRemote(process, () => readReport(mark, stderr()));
        kills.add(kill);
        await kill.finally(() => kills.delete(kill));
      },
    };
    return { argv: [...sshArgv(target), text], mark, what, setting };
  }

  /** Killing ssh alone would leave the command running over there until it next reads or writes. */
  async function killRemote(process: RunningProcess, read: () => RemoteReport) {
    const deadline = performance.now() + killPatienceMs;
    while (read().pid === undefined && process.exitCode === null && performance.now() < deadline) await sleep(10);
    const { turn, leave } = killTurns.take();
    try {
      await turn;
      const { pid, outcome } = read();
      if (pid === undefined || outcome !== undefined || performance.now() > deadline) return;
      await killGroup(pid, deadline - performance.now());
    } finally {
      leave();
    }
  }

  async function killGroup(pid: number, patienceMs: number) {
    await runProcess([...sshArgv(target), `kill -s KILL -- -${pid}`], {
      environment: ownEnvironment,
      what: `kill on ${target.host}`,
      signal: new AbortController().signal,
      timeoutMs: Math.max(1, patienceMs),
      maxOutputBytes: extraBytes,
    });
  }

  async function run(argv: readonly string[], options: RunOptions): Promise<RunResult> {
    const command = prepare(argv);
    const { signal, timeoutMs, maxOutputBytes } = options;
    const deadline = performance.now() + timeoutMs;
    const dropInput = keepInput(options.stdin);
    const { turn, leave } = turns.take();
    try {
      const ready = turn.then(() => connection.ensure());
      await waitFor(ready, command.what, signal, timeoutMs);
      const { stdout, stderr } = await runProcess(command.argv, {
        ...options,
        ...command.setting,
        timeoutMs: Math.max(1, deadline - performance.now()),
        maxOutputBytes: maxOutputBytes + extraBytes,
      });
      const report = readReport(command.mark, stderr);
      const output = readMarked(command.mark, stdout);
      const trouble = troubleOf(report, command.what, target);
      if (trouble !== null) throw trouble;
      if (output === undefined) throw unavailable(`The output of ${command.what} broke off.`);
      if (output.length > maxOutputBytes || Buffer.byteLength(report.stderr) > maxOutputBytes) {
        throw unavailable(`${command.what} wrote more than ${maxOutputBytes} bytes.`);
      }
      return { code: codeOf(report), stdout: output.toString('utf8'), stderr: report.stderr };
    } finally {
      leave();
      dropInput();
    }
  }

  return {
    place: target.host,
    run,

    async stream(argv, { signal }): Promise<Readable> {
      const command = prepare(argv);
      if (signal.aborted) throw interrupted(command.what, signal);
      await waitFor(connection.ensure(), command.what, signal);
      const marked = await streamProcess(command.argv, {
        ...command.setting,
        signal,
        judge: (_code, stderr) => judgeStream(readReport(command.mark, stderr), command.what, target),
      });
      return pipeline(marked, createUnmarking(command.mark, command.what), () => undefined);
    },

    async close() {
      await Promise.allSettled(kills);
      await connection.close();
    },
  };
}

function troubleOf({ pid, outcome, stderr }: RemoteReport, what: string, target: SshTarget): BursarError | null {
  if (outcome === 'missing') {
    const remedy = 'Install it there, or add its folder to PATH in the environment of the system';
    return unavailable(`${what} could not be started: there is no such program. ${remedy}.`);
  }
  if (outcome !== undefined) return null;
  if (pid === undefined) return connectionError(target, stderr);
  return unavailable(`The connection to ${target.host} was lost while ${what} was running.`, new Error(stderr));
}

function judgeStream(report: RemoteReport, what: string, target: SshTarget): BursarError | null {
  const trouble = troubleOf(report, what, target);
  if (trouble !== null || report.outcome === 0) return trouble;
  return unavailable(`${what} failed (${codeOf(report) ?? 'killed'}).`, new Error(report.stderr));
}

function codeOf({ outcome }: RemoteReport): number | null {
  return typeof outcome !== 'number' || (outcome > 128 && outcome <= 192) ? null : outcome;
}

/** Waits for something shared, which goes on when this caller no longer waits for it. */
async function waitFor(ready: Promise<void>, what: string, signal: AbortSignal, timeoutMs?: number): Promise<void> {
  const { promise: gaveUp, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(interrupted(what, signal));
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => reject(tooSlow(what, timeoutMs)), timeoutMs);
  signal.addEventListener('abort', onAbort);
  if (signal.aborted) onAbort();
  try {
    await Promise.race([ready, gaveUp]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}

/** The operator's keys may be in an agent. */
const agentOf = (socket: string | undefined): Record<string, string> => (socket ? { SSH_AUTH_SOCK: socket } : {});
