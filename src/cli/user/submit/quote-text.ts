import type { Quote, System } from '#client';
import { formatCharge } from '../../../domain/format-amount.ts';
import { CommandError } from '../errors.ts';

/** "costs at most 24 core-h, leaves 4,980 core-h" */
export function describeQuote({ cost, time_left }: Quote, { charge }: System): string {
  return `costs at most ${formatCharge(cost, charge)}, leaves ${formatCharge(time_left, charge)}`;
}

/** Throws if the job would not be accepted now. The reason of the server says how much is missing. */
export function requireAccepted(
  { accepted, reason, cost, longest_runtime, binding_account }: Quote,
  { charge }: System,
) {
  if (accepted) return;
  const message = reason ?? `The job costs at most ${formatCharge(cost, charge)}, and would not be accepted now.`;
  const runtime = Math.floor(longest_runtime * 100) / 100;
  const fitsShorter = binding_account !== null && runtime > 0;
  const nextStep = fitsShorter
    ? `Use --runtime ${runtime}, or fewer nodes or cores.`
    : 'See what is left: bursar quota';
  throw new CommandError('quota', message, nextStep);
}
