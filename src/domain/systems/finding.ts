/** The result of one check, and how to fix it if it failed. A warning is `ok`, and has a fix. */
export interface Finding {
  check: string;
  ok: boolean;
  detail: string;
  fix: string | null;
}

/** Thrown by a check about a risk that the operator may have chosen. */
export class Warning extends Error {}

/** Runs a check and records its finding. Returns true if `run` succeeded; an error of `run` is recorded with `fix`. */
export type Check = (name: string, fix: string, run: () => Promise<string>) => Promise<boolean>;

export function createChecklist(): { check: Check; findings: Finding[] } {
  const findings: Finding[] = [];
  const check: Check = async (name, fix, run) => {
    try {
      findings.push({ check: name, ok: true, detail: await run(), fix: null });
      return true;
    } catch (error) {
      const ok = error instanceof Warning;
      findings.push({ check: name, ok, detail: describeError(error), fix });
      return ok;
    }
  };
  return { check, findings };
}

/** Includes the cause, which is hidden from users but not from operators. */
function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? error.cause.message.trim().split('\n').at(-1) : '';
  return cause && !error.message.includes(cause) ? `${error.message} (${cause})` : error.message;
}
