import type { Context } from '../context.ts';
import { exitCodes } from '../exit-codes.ts';

/** Adds up the whole ledger on the server. Fails if a balance is wrong. */
export async function verify(context: Context): Promise<void> {
  const { api } = await context.client();
  const verification = await api.verifyLedger({ signal: context.signal });
  if (!verification.balanced) context.exitCode = exitCodes.failure.code;
  if (context.options.json) return await context.printJson(verification);
  await context.printFields([
    ['balanced', verification.balanced ? 'yes' : 'no'],
    ['accounts', String(verification.accounts)],
    ['entries', String(verification.entries)],
    ...verification.problems.map((problem) => ['problem', problem] as const),
  ]);
}
