// Runs the histories of some seeds, and prints a line of JSON for each. A process of its own, because virtual time is global,
// and because only one thread for files makes their order the same every time.
import { runHistory } from './history.ts';
import { createPlan, type Plan } from './plan.ts';
import { shorten } from './shorten.ts';

// So that its folder is removed.
process.on('SIGTERM', () => process.exit());
const [task, first = '1', last = first] = process.argv.slice(2);
if (process.env.UV_THREADPOOL_SIZE !== '1') throw new Error('UV_THREADPOOL_SIZE must be 1');

for (let seed = Number(first); seed <= Number(last); seed++) {
  const plan = createPlan(seed);
  if (task === 'trace') await print(plan, true);
  else if (task === 'shorten') await print(await shorten(plan), true);
  else await print(plan, false);
}
process.exit();

async function print(plan: Plan, withTrace: boolean): Promise<void> {
  const { lines, ...history } = await runHistory(plan);
  const { servers, actions, callFaults, timedFaults } = plan;
  const size = { servers, actions: actions.length, plannedFaults: callFaults.length + timedFaults.length };
  process.stdout.write(`${JSON.stringify({ ...history, ...size, ...(withTrace && { lines }) })}\n`);
}
