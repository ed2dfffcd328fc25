import type { Context } from '../context.ts';
import { exitCodes } from '../exit-codes.ts';

/** Adds up the whole ledger on the server. Fails if a balance is wrong. */
export async function verify(context: Context): Promise<void> {
  const { api } = await context.client();
  const proof = await api.verifyLedger({ signal: context.signal });
  if (!proof.balanced) context.exitCode = exitCodes.failure.code;
  if (context.options.json) return await context.printJson(proof);
  await context.printFields([
    ['balanced', proof.balanced ? 'yes' : 'no'],
    ['accounts', String(proof.accounts)],
    ['entries', String(proof.entries)],
    ...proof.problems.map((problem) => ['problem', problem] as const),
  ]);
}
