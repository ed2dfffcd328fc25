import type { Readable } from 'node:stream';

export type Environment = Readonly<Record<string, string | undefined>>;

/** A stream that may be a terminal, a pipe or a file. */
export interface OutputStream {
  write(text: string | Uint8Array, done?: (error?: Error | null) => void): boolean;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
  rows?: number | undefined;
  on(event: 'resize', listener: () => void): unknown;
  off(event: 'resize', listener: () => void): unknown;
}

/** The options that every users' command has. */
export interface CommonOptions {
  json?: boolean | undefined;
  profile?: string | undefined;
  verbose?: boolean | undefined;
  insecure?: boolean | undefined;
}

/** The parts of the process that a command uses. A test passes its own. */
export interface CommandEnvironment {
  env: Environment;
  stdin: Readable & { isTTY?: boolean };
  stdout: OutputStream;
  stderr: OutputStream;
  now: () => number;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
}
