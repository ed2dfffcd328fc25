import type { Readable } from 'node:stream';
import { BursarError } from '../domain/errors.ts';

export interface RunOptions {
  signal: AbortSignal;
  timeoutMs: number;
  /** The limit for stdout and for stderr, each. A command that exceeds it is killed. */
  maxOutputBytes: number;
  stdin?: string | Uint8Array | Readable;
  /** Replaces the environment of the shell. Only for a shell whose environment is known. */
  environment?: Record<string, string>;
}

export interface RunResult {
  /** Null when a signal ended the command. */
  code: number | null;
  stdout: string;
  stderr: string;
}

/**
 * Runs programs on the host of an HPC system: on this host, or on another one over a shared connection. Commands are
 * argv arrays; only the ssh shell quotes them, for the remote login shell.
 *
 * A command that ran and failed is a result with its exit code. `run` and `stream` throw only when the command could not
 * be started, exceeded a limit, was aborted or lost its connection: a BursarError `unavailable`, transient. The command
 * may or may not have taken effect then.
 */
export interface Shell {
  run(argv: readonly string[], options: RunOptions): Promise<RunResult>;

  /** Starts a command and streams its output. Destroying the stream kills the command; a failure destroys the stream. */
  stream(argv: readonly string[], options: Pick<RunOptions, 'signal'>): Promise<Readable>;

  /** The environment of the commands; null if start-up files may change it. */
  readonly environment: Readonly<Record<string, string>> | null;

  /** Whether commands run on this host, with the same files. */
  readonly isLocal: boolean;

  /** The host that commands run on, for messages: `this host`, or a host name. */
  readonly hostLabel: string;

  close(): Promise<void>;
}

/** The only kind of failure of a shell: the same command may work later. This time it may or may not have taken effect. */
export function unavailableError(message: string, cause?: unknown): BursarError {
  return new BursarError('unavailable', message, { cause, transient: true });
}

/** `label` names the program and its host, never its arguments: they may contain user data. */
export const timeoutError = (label: string, timeoutMs: number) =>
  unavailableError(`${label} did not answer within ${Math.round(timeoutMs / 100) / 10} s. Try again later.`);

export const interruptedError = (label: string, signal: AbortSignal) =>
  unavailableError(`${label} was interrupted.`, signal.reason);
