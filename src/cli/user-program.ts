import type { Host } from './host.ts';
import { createProgram, runProgram } from './run-program.ts';
import { addUserCommands } from './user/commands.ts';

/** Runs a command of a user. The program that Bursar serves to its users is built from this file. */
export async function runCommandLine(host: Host): Promise<void> {
  const program = createProgram('Submit jobs to HPC systems, follow them, and see the quota that is left.', host);
  addUserCommands(program, host);
  await runProgram(program, host, (error) => ({ message: (error as Error).stack ?? String(error), exitCode: 1 }));
}
