import { BursarError } from '../domain/errors.ts';
import { fileSystemErrorCode } from '../files/file-system-errors.ts';
import type { StartOptions } from '../main.ts';
import type { Host } from './host.ts';
import { addOperatorCommands } from './operator/commands.ts';
import { exitCodeFor } from './operator/exit-codes.ts';
import { createOperator, type UseDatabase } from './operator/operator.ts';
import { createProgram, runProgram, version } from './run-program.ts';
import { addUserCommands } from './user/commands.ts';

/** Runs a command of a user or of an operator. Sets the exit code of the host. `startOptions` are for tests of servers. */
export async function runCommandLine(
  host: Host,
  useDatabase?: UseDatabase,
  startOptions?: StartOptions,
): Promise<void> {
  const program = createProgram('Job submission and quota accounting in front of HPC systems.', host);
  addUserCommands(program, host);
  addOperatorCommands(program, createOperator(host, useDatabase), version, startOptions);
  program.addHelpText('after', operatorsHelp);
  await runProgram(program, host, (error) => ({
    message: describeError(error as Error),
    exitCode: exitCodeFor(error),
  }));
}

const operatorsHelp = `
Environment of the operators' commands:
  BURSAR_CONFIG  configuration file (YAML); default: the shipped config/bursar.yaml
  BURSAR_HOST    address to listen on
  BURSAR_PORT    port to listen on
  BURSAR_DATA    folder for all data that Bursar stores
  BURSAR_DATABASE_URL  database: sqlite:<file> or postgres://…

Exit codes of the operators' commands: 0 success, 1 failure, 2 wrong usage, 3 invalid configuration, 4 not found, 5 data
folder in use`;

/** An error of the operating system is not a bug: its message names the cause and the path. */
function describeError(error: Error): string {
  const isExpected = error instanceof BursarError || fileSystemErrorCode(error) !== undefined;
  return isExpected ? error.message : (error.stack ?? error.message);
}
