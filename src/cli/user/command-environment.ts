import type { Readable } from 'node:stream';
import type { Environment, OutputStream } from '../host.ts';

/** The options that every users' command has. */
export interface CommonOptions {
  json?: boolean | undefined;
  profile?: string | undefined;
  verbose?: boolean | undefined;
  insecure?: boolean | undefined;
}

/** The parts of the process that a users' command uses. */
export interface CommandEnvironment {
  env: Environment;
  stdin: Readable & { isTTY?: boolean };
  stdout: OutputStream;
  stderr: OutputStream;
  now: () => number;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
}
