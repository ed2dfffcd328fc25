import type { Quote, System } from '#client';
import { CommandError } from '../errors.ts';
import { formatNumber } from '../terminal/time.ts';

const unitPrefix = { core: 'core-', node: 'node-', wall: '' } as const;

/** Formats charged seconds in the unit of the system: "24 core-h", "6 core-min". */
export function formatCharge(seconds: number, charge: System['charge']): string {
  const prefix = unitPrefix[charge];
  if (seconds < 60) return `${formatNumber(seconds)} ${prefix}s`;
  if (seconds < 3600) return `${formatNumber(seconds / 60)} ${prefix}min`;
  return `${formatNumber(seconds / 3600)} ${prefix}h`;
}

/** "costs at most 24 core-h, leaves 4,976 core-h" */
export function describeQuote({ cost, time_left }: Quote, { charge }: System): string {
  return `costs at most ${formatCharge(cost, charge)}, leaves ${formatCharge(time_left, charge)}`;
}

/** Throws if the job would not be accepted now. The reason of the server says how much is missing. */
export function requireAccepted(
  { accepted, reason, cost, longest_runtime, binding_account }: Quote,
  { charge }: System,
) {
  if (accepted) return;
  const message = `The job costs at most ${formatCharge(cost, charge)}. ${reason ?? 'It would not be accepted now.'}`;
  const runtime = Math.floor(longest_runtime * 100) / 100;
  const fitsShorter = binding_account !== null && runtime > 0;
  const nextStep = fitsShorter
    ? `Use --runtime ${runtime}, or fewer nodes or cores.`
    : 'See what is left: bursar quota';
  throw new CommandError('quota', message, nextStep);
}
