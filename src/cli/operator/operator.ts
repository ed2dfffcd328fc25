import type { Config } from '../../config/schema.ts';
import type { Db } from '../../store/database/handle.ts';
import type { Host } from '../host.ts';
import { exitCodes } from './exit-codes.ts';

/** The output of a command. */
export interface CommandOutput {
  /** Writes to standard output. */
  print(text: string): void;
  /** Writes to standard error. */
  warn(text: string): void;
  /** Makes the command fail although it throws nothing: its output has the reason. */
  fail(): void;
}

/** Everything that an operators' command gets besides its options. */
export interface OperatorContext extends CommandOutput {
  readonly config: Config;
  /** Opens the database of the configuration for this command. A server may be using it at the same time. */
  withDatabase<T>(use: (db: Db) => Promise<T>): Promise<T>;
}

export type UseDatabase = <T>(config: Config, use: (db: Db) => Promise<T>) => Promise<T>;

export interface Operator {
  /** Recorded in the ledger and in the audit trail, unless another name is given. */
  readonly name: string;
  readonly output: CommandOutput;
  /** Lets nobody else read the files that the command creates. */
  protectFiles(): void;
  /** Reads the configuration that the environment names. */
  context(): Promise<OperatorContext>;
}

/**
 * The operator who runs a command. A test whose process has a server passes the database of this server: two SQLite
 * connections of one thread could wait for each other for ever.
 */
export function createOperator(host: Host, useDatabase: UseDatabase = openForCommand): Operator {
  const output: CommandOutput = {
    print: (text) => void host.stdout.write(text),
    warn: (text) => void host.stderr.write(text),
    fail: () => {
      host.exitCode = exitCodes.failure;
    },
  };
  return {
    name: host.env.USER ?? 'operator',
    output,
    protectFiles: () => void host.umask(0o077),
    async context() {
      const { loadConfig } = await import('../../config/load.ts');
      const config = loadConfig(host.env);
      return { ...output, config, withDatabase: (use) => useDatabase(config, use) };
    },
  };
}

/** Help, and commands about the configuration, need no database. */
const openForCommand: UseDatabase = async (config, use) => {
  const { withDatabase } = await import('./with-database.ts');
  return await withDatabase(config, use);
};
