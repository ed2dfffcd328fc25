import type { ExitCodeName } from './exit-codes.ts';

/** A failure of a command that its user can act on. The message says the cause, `nextStep` what to do. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exit: ExitCodeName;
  readonly nextStep: string | undefined;

  constructor(exit: ExitCodeName, message: string, nextStep?: string) {
    super(message);
    this.exit = exit;
    this.nextStep = nextStep;
  }
}

export function usageError(message: string, nextStep?: string): CommandError {
  return new CommandError('usage', message, nextStep);
}
