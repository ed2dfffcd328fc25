import type { JobCommand, JobRequest } from './job.ts';

/** The part of a request that options of a submit command can repeat. */
export type RequestedJob = Pick<JobRequest, 'title' | 'nodes' | 'coresPerNode' | 'runtimeHours'>;

export type ParsedCommand = { ok: true; command: JobCommand } | { ok: false; error: string };

/** How users write the commands of jobs: lines for the shell, and perhaps the submit command of a scheduler. */
export interface CommandLanguage {
  /** Public, at `/hpc/`. */
  name: string;
  /** A command that runs a script, for hints. */
  example: string;
  /** With `job`, options that contradict it are errors: nothing is accepted and then ignored. */
  parse(text: string, job?: RequestedJob): ParsedCommand;
  /** Formats a command so that `parse` returns the same one. Null for the argv of a tool. */
  format(command: JobCommand): string | null;
  /**
   * Returns the first error in the directives of a script, or null. Directives may use the same options as the command.
   * `hasMore`: the text is only the first part of the script.
   */
  findDirectiveError(text: string, job: RequestedJob, hasMore: boolean): string | null;
}

/** Every command is a line for the shell. */
export const plainCommands: CommandLanguage = {
  name: 'none',
  example: './run.sh',
  parse: (text) => ({ ok: true, command: { kind: 'line', line: text } }),
  format: (command) => (command.kind === 'line' ? command.line : null),
  findDirectiveError: () => null,
};
