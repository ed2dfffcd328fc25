import type { Readable } from 'node:stream';

export type Environment = Readonly<Record<string, string | undefined>>;

/** A stream that may be a terminal, a pipe or a file. */
export interface OutputStream {
  write(text: string | Uint8Array, done?: (error?: Error | null) => void): boolean;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
  rows?: number | undefined;
  on(event: 'resize', listener: () => void): unknown;
  on(event: 'error', listener: (error: NodeJS.ErrnoException) => void): unknown;
  off(event: 'resize', listener: () => void): unknown;
}

/** The parts of `process` that the command line uses. A test passes its own, and needs no process for each command. */
export interface Host {
  readonly argv: readonly string[];
  readonly env: Environment;
  readonly stdin: Readable & { isTTY?: boolean };
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  exitCode?: number | string | null | undefined;
  exit(code: number): never;
  umask(mask: number): unknown;
  on(event: 'SIGINT', listener: () => void): unknown;
  off(event: 'SIGINT', listener: () => void): unknown;
}
