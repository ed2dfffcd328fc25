/** The result of one check: what was found, and what to do when it is a fault. */
export interface Finding {
  check: string;
  ok: boolean;
  detail: string;
  fix: string | null;
}

/** Runs a check. What it throws is a fault, with the given advice. */
export async function finding(check: string, fix: string, look: () => Promise<string>): Promise<Finding> {
  try {
    return { check, ok: true, detail: await look(), fix: null };
  } catch (error) {
    return { check, ok: false, detail: error instanceof Error ? error.message : String(error), fix };
  }
}
