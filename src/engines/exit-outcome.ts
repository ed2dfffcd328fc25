import { constants } from 'node:os';
import type { JobEnd } from '../domain/jobs/job.ts';

export type OutcomeFields = Pick<JobEnd, 'outcome' | 'reason' | 'exitCode'>;

/** Null if the exit says nothing. */
export function outcomeForExit({ code, signal }: { code: number; signal: number }): OutcomeFields | null {
  if (signal > 0) return { outcome: 'failed', reason: `killed by ${signalName(signal)}`, exitCode: null };
  // Every job is started by bash.
  return code > 0 ? { outcome: 'failed', reason: describeShellExitCode(code), exitCode: code } : null;
}

/** Interprets an exit code as a shell reports it: 128 plus the signal number for a death by a signal. */
export function outcomeForShellExitCode(code: number): OutcomeFields {
  const exit = code > 128 && code < 160 ? { code: 0, signal: code - 128 } : { code, signal: 0 };
  return outcomeForExit(exit) ?? succeeded;
}

export const succeeded: OutcomeFields = { outcome: 'succeeded', reason: 'exit code 0', exitCode: 0 };

function signalName(signal: number): string {
  return Object.entries(constants.signals).find(([, number]) => number === signal)?.[0] ?? `signal ${signal}`;
}

/** Only shells give 126 and 127 a fixed meaning. */
export function describeShellExitCode(code: number): string {
  if (code === 127) return 'command not found (exit code 127): stderr says which';
  if (code === 126) return 'command not executable (exit code 126): stderr says which';
  return `exit code ${code}`;
}
