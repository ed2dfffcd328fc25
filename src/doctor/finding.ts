/** The result of one check: what was found, and what to do when it is a fault. */
export interface Finding {
  check: string;
  ok: boolean;
  detail: string;
  fix: string | null;
}

/** Makes a check and keeps its finding; true when all is well. What `look` throws is a fault, with the given advice. */
export type Check = (check: string, fix: string, look: () => Promise<string>) => Promise<boolean>;

export function createChecklist(): { check: Check; findings: Finding[] } {
  const findings: Finding[] = [];
  const check: Check = async (name, fix, look) => {
    const finding = await lookInto(name, fix, look);
    findings.push(finding);
    return finding.ok;
  };
  return { check, findings };
}

async function lookInto(check: string, fix: string, look: () => Promise<string>): Promise<Finding> {
  try {
    return { check, ok: true, detail: await look(), fix: null };
  } catch (error) {
    return { check, ok: false, detail: wordsOf(error), fix };
  }
}

/** With what is behind it: an operator may see what users may not. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? error.cause.message.trim().split('\n').at(-1) : '';
  return cause && !error.message.includes(cause) ? `${error.message} (${cause})` : error.message;
}
