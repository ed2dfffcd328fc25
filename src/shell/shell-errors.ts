import { BursarError } from '../domain/errors.ts';

/** The one kind of failure that a shell has: the same command may work later, and nobody knows what it did this time. */
export function unavailable(message: string, cause?: unknown): BursarError {
  return new BursarError('unavailable', message, { cause, transient: true });
}

/** `what` names the program and its place, never its arguments: they may be somebody's data. */
export const tooSlow = (what: string, timeoutMs: number) =>
  unavailable(`${what} did not answer within ${Math.round(timeoutMs / 100) / 10} s. Try again later.`);

export const interrupted = (what: string, signal: AbortSignal) =>
  unavailable(`${what} was interrupted.`, signal.reason);
