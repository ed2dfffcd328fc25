import { basename } from 'node:path';
import { pipeline, type Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BursarError } from '../domain/errors.ts';
import { createSlots } from '../domain/slots.ts';
import { baseEnvironment } from './base-environment.ts';
import { coalesce } from './coalesce.ts';
import { guardInput, type ProcessOptions, type RunningProcess, type StartProcess } from './process.ts';
import {
  createOutputExtractor,
  extractOutput,
  incompleteOutputError,
  parseStatus,
  type RemoteStatus,
  wrapCommand,
} from './remote-command.ts';
import { runProcess, streamProcess, withTimeout } from './run-process.ts';
import { interruptedError, type RunOptions, type RunResult, type Shell, unavailableError } from './shell.ts';
import { connectionError, createSshConnection, loginTimeoutMs, type SshTarget, sshArgv } from './ssh-connection.ts';

export interface SshShellOptions extends SshTarget {
  /** Added to the environment of the remote commands. */
  environment: Record<string, string>;
  /** Starts the ssh of each command of `run`. Default: this process does. */
  startProcess?: StartProcess | undefined;
}

/**
 * sshd allows ten sessions on a connection by default. For each further one, ssh opens a new connection. Streams come in
 * addition, and readers of files limit them: they last longer than commands, which must not wait for them.
 */
const maxConcurrentCommands = 8;
/** Additional output for the markers and for what start-up files print. */
const extraOutputBytes = 65_536;
/** How long `close` waits. Commands are killed and the connection is closed in the background then, while this process lives. */
const maxCloseMs = 5000;

/**
 * Runs programs on another host with OpenSSH's client, over one shared connection that is opened on demand and reopened
 * when it was lost. The account's login shell must be a POSIX shell; it never interprets any part of a command. Killing a
 * command also kills its process group on the remote host, if that can be reached. Shells report signals as exit codes
 * from 129 to 192; `run` returns null for those.
 */
export function createSshShell({ environment, startProcess, ...target }: SshShellOptions): Shell {
  const sshEnvironment = { ...baseEnvironment(), ...agentVariable(process.env.SSH_AUTH_SOCK) };
  const connection = createSshConnection(target, sshEnvironment);
  const commandSlots = createSlots({ total: maxConcurrentCommands });
  const runningKills = new Set<Promise<void>>();

  function prepare(argv: readonly string[]) {
    const { commandLine, marker } = wrapCommand(argv, environment);
    const label = `${basename(argv[0] ?? '')} on ${target.host}`;
    const processOptions: ProcessOptions = {
      environment: sshEnvironment,
      label,
      beforeKill: async (child, stderr) => {
        const kill = killRemote(child, () => parseStatus(marker, stderr()));
        runningKills.add(kill);
        await kill.finally(() => runningKills.delete(kill));
      },
    };
    return { argv: [...sshArgv(target), commandLine], marker, label, processOptions };
  }

  /**
   * Killing only the local ssh would leave the remote command running until it next reads or writes. One session of ssh kills
   * all commands that are to be killed at the moment: a session takes time, and each beyond the tenth a new connection.
   */
  const killGroups = coalesce(async (commands: { readStatus(): RemoteStatus; deadline: number }[]) => {
    const groups = commands.flatMap((command) => {
      const { pid, exit } = command.readStatus();
      return pid === undefined || exit !== undefined ? [] : [`-${pid}`];
    });
    const timeoutMs = Math.max(...commands.map((command) => command.deadline)) - performance.now();
    if (groups.length === 0 || timeoutMs <= 0) return;
    await runProcess([...sshArgv(target), `kill -s KILL -- ${groups.join(' ')}`], {
      environment: sshEnvironment,
      startProcess,
      label: `kill on ${target.host}`,
      signal: new AbortController().signal,
      timeoutMs,
      maxOutputBytes: extraOutputBytes,
    });
  });

  async function killRemote(child: RunningProcess, readStatus: () => RemoteStatus) {
    const deadline = performance.now() + loginTimeoutMs(target);
    while (readStatus().pid === undefined && !child.hasExited() && performance.now() < deadline) await sleep(10);
    await killGroups({ readStatus, deadline });
  }

  async function run(argv: readonly string[], options: RunOptions): Promise<RunResult> {
    const { marker, label, processOptions, argv: sshCommand } = prepare(argv);
    const { signal, timeoutMs, maxOutputBytes } = options;
    const deadline = performance.now() + timeoutMs;
    const destroyInput = guardInput(options.stdin);
    const waiting = new AbortController();
    const slot = commandSlots.take({ signal: waiting.signal });
    try {
      const connected = slot.then(() => connection.ensure());
      await waitFor(connected, { label, signal, timeoutMs });
      const { stdout, stderr } = await runProcess(sshCommand, {
        ...options,
        ...processOptions,
        startProcess,
        timeoutMs: Math.max(1, deadline - performance.now()),
        maxOutputBytes: maxOutputBytes + extraOutputBytes,
      });
      const status = parseStatus(marker, stderr);
      const output = extractOutput(marker, stdout);
      const error = incompleteRunError(status, label, target);
      if (error !== null) throw error;
      if (output === undefined) throw incompleteOutputError(label);
      if (output.length > maxOutputBytes || Buffer.byteLength(status.stderr) > maxOutputBytes) {
        throw unavailableError(`${label} wrote more than ${maxOutputBytes} bytes.`);
      }
      return { code: toExitCode(status), stdout: output.toString('utf8'), stderr: status.stderr };
    } finally {
      waiting.abort();
      slot.then(
        (free) => free(),
        () => undefined,
      );
      destroyInput();
    }
  }

  return {
    hostLabel: target.host,
    isLocal: false,
    environment: null,
    run,

    async stream(argv, { signal }): Promise<Readable> {
      const { marker, label, processOptions, argv: sshCommand } = prepare(argv);
      if (signal.aborted) throw interruptedError(label, signal);
      await waitFor(connection.ensure(), { label, signal });
      const markedOutput = await streamProcess(sshCommand, {
        ...processOptions,
        signal,
        exitError: (_code, stderr) => streamError(parseStatus(marker, stderr), label, target),
      });
      return pipeline(markedOutput, createOutputExtractor(marker, label), () => undefined);
    },

    async close() {
      const closed = Promise.allSettled(runningKills).then(() => connection.close());
      await Promise.race([closed, sleep(maxCloseMs, undefined, { ref: false })]);
    },
  };
}

/** The error of a command that did not run to its end; null if it did, whatever its exit code. */
function incompleteRunError({ pid, exit, stderr }: RemoteStatus, label: string, target: SshTarget): BursarError | null {
  if (exit === 'missing') {
    const remedy = 'Install it there, or add its folder to PATH in the environment of the system';
    return unavailableError(`${label} could not be started: there is no such program. ${remedy}.`);
  }
  if (exit !== undefined) return null;
  if (pid === undefined) return connectionError(target, stderr);
  return unavailableError(`The connection to ${target.host} was lost while ${label} was running.`, new Error(stderr));
}

function streamError(status: RemoteStatus, label: string, target: SshTarget): BursarError | null {
  const error = incompleteRunError(status, label, target);
  if (error !== null || status.exit === 0) return error;
  return unavailableError(`${label} failed (${toExitCode(status) ?? 'killed'}).`, new Error(status.stderr));
}

function toExitCode({ exit }: RemoteStatus): number | null {
  return typeof exit !== 'number' || (exit > 128 && exit <= 192) ? null : exit;
}

/** Waits for a shared operation, which continues if this caller stops waiting. */
const waitFor = (ready: Promise<void>, options: Parameters<typeof withTimeout>[0]) =>
  withTimeout(options, (stopped) => Promise.race([ready, stopped]));

/** The operator's keys may be in an ssh agent. */
const agentVariable = (socket: string | undefined): Record<string, string> => (socket ? { SSH_AUTH_SOCK: socket } : {});
