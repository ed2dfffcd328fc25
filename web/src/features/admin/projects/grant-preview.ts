import type { Resource } from '../../../shared/amount.ts';
import type { AccountFigures } from '../account-figures.tsx';
import { findAccount, reserveOf } from './accounts.ts';

/** A change of the grants of a project, as its dialog describes it. Null is the pool. */
export type GrantChange =
  | {
      kind: 'top_up' | 'withdraw';
      user: string | null;
      resource: Resource;
      amount: number;
      /** `new`: the pool changes by the same amount. `pool`: the amount comes from its reserve, or returns there. */
      source: 'new' | 'pool';
    }
  | { kind: 'transfer'; from: string; to: string; resource: Resource; amount: number }
  | { kind: 'refund'; user: string; resource: 'time'; amount: number; refundable: number };

export interface Preview {
  lines: { label: string; before: number; after: number }[];
  /** Says why the server will refuse the change, as far as the accounts on this page tell. */
  problem: Problem | undefined;
}

type Problem = { text: string; available: number };

/** Computes the effect of a change from the accounts before it. The server checks again, with the accounts of that moment. */
export function previewGrant(accounts: readonly AccountFigures[], change: GrantChange): Preview {
  const { resource, amount } = change;
  const available = (user: string | null) => findAccount(accounts, user, resource)?.available ?? 0;
  const reserve = reserveOf(accounts, resource);
  const line = (label: string, before: number, difference: number) => ({ label, before, after: before + difference });
  const reserveLine = (difference: number) => line('reserve of the pool', reserve, difference);
  const limit = (most: number, text: string): Problem | undefined =>
    amount > most ? { text, available: Math.max(0, most) } : undefined;

  switch (change.kind) {
    case 'top_up':
    case 'withdraw': {
      const { user, source } = change;
      const signed = change.kind === 'top_up' ? amount : -amount;
      const isTaking = change.kind === 'withdraw';
      if (user === null) {
        return {
          lines: [reserveLine(signed)],
          problem: isTaking ? limit(reserve, 'More than the reserve of the pool') : undefined,
        };
      }
      const poolLine =
        source === 'pool'
          ? reserveLine(-signed)
          : line('pool of the project', findAccount(accounts, null, resource)?.available ?? 0, signed);
      const most = source === 'new' ? Math.min(available(user), available(null)) : available(user);
      const problem = isTaking
        ? limit(most, `More than user ${user} has free`)
        : source === 'pool'
          ? limit(reserve, 'More than the reserve of the pool')
          : undefined;
      return { lines: [line(`user ${user}`, available(user), signed), poolLine], problem };
    }
    case 'transfer':
      return {
        lines: [
          line(`user ${change.from}`, available(change.from), -amount),
          line(`user ${change.to}`, available(change.to), amount),
        ],
        problem: limit(available(change.from), `More than user ${change.from} has free`),
      };
    case 'refund':
      return {
        lines: [
          line(`user ${change.user}`, available(change.user), amount),
          line('pool of the project', available(null), amount),
        ],
        problem: limit(change.refundable, 'More than was charged and is not refunded yet'),
      };
    default: {
      const unhandled: never = change;
      throw new Error(`unknown change ${String(unhandled)}`);
    }
  }
}
