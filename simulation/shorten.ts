import { runHistory } from './history.ts';
import type { Plan } from './plan.ts';

/** Histories that are tried to shorten one. */
const maxTries = 200;

/** A problem without what differs between two histories: ids, numbers and details. */
const kindOf = (problem: string) => problem.replace(/:.*/s, '').replaceAll(/[0-9A-F]{8}-[-0-9A-F]+|\d+/gi, '');

/**
 * Removes faults, then users' actions, then servers from the plan of a failing history, as long as it fails in the same way.
 * Larger parts are tried first (delta debugging).
 */
export async function shorten(plan: Plan): Promise<Plan> {
  let tries = 0;
  const [first] = (await runHistory(plan)).problems;
  if (first === undefined) return plan;
  const fails = async (candidate: Plan) => {
    tries += 1;
    const { problems } = await runHistory(candidate);
    return problems.some((problem) => kindOf(problem) === kindOf(first));
  };

  async function shortenList<Key extends 'callFaults' | 'timedFaults' | 'actions'>(
    from: Plan,
    key: Key,
  ): Promise<Plan> {
    let current = from;
    for (let size = current[key].length; size >= 1; size = Math.floor(size / 2)) {
      for (let start = 0; start < current[key].length && tries < maxTries; ) {
        const candidate = { ...current, [key]: current[key].toSpliced(start, size) };
        if (await fails(candidate)) current = candidate;
        else start += size;
      }
    }
    return current;
  }

  let shortest = plan;
  for (const key of ['callFaults', 'timedFaults', 'actions', 'callFaults', 'timedFaults'] as const)
    shortest = await shortenList(shortest, key);
  for (let servers = 1; servers < shortest.servers && tries < maxTries; servers++)
    if (await fails({ ...shortest, servers })) return { ...shortest, servers };
  return shortest;
}
