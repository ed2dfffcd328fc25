import type { Readable } from 'node:stream';

export interface RunOptions {
  signal: AbortSignal;
  /** Every command has a time limit… */
  timeoutMs: number;
  /** …and an output limit, for stdout and stderr each; what goes beyond it ends the command. */
  maxOutputBytes: number;
  /** Text, bytes, or a stream of them; nothing where it is left out. */
  stdin?: string | Uint8Array | Readable;
}

export interface RunResult {
  /** Null when a signal ended it. */
  code: number | null;
  stdout: string;
  stderr: string;
}

/**
 * Runs programs where an HPC system is: on this host, or on another one over a shared connection. Commands are argv
 * arrays; quoting them for a remote shell is the business of the ssh one, and nobody else's.
 *
 * A command that ran and failed is a result with its code. What throws is a BursarError: `unavailable` and transient
 * when the command could not be started, took too long or lost its connection (nobody knows then whether it did its
 * work), `job_refused` never.
 */
export interface Shell {
  run(argv: readonly string[], options: RunOptions): Promise<RunResult>;

  /** Starts a command whose output is read as a stream. Destroying the stream ends the command; a failure destroys it. */
  stream(argv: readonly string[], options: Pick<RunOptions, 'signal'>): Promise<Readable>;

  /** Where it runs things, for messages: `this host`, or the name of the other one. */
  readonly place: string;

  close(): Promise<void>;
}
