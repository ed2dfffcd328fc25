/** Runs an engine in a separate process that the test kills. Submits the given jobs and then observes them forever. */
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLocalEngine } from '../../../../src/engines/local/engine.ts';
import { createSupervisorClient } from '../../../../src/engines/local/supervisor/client.ts';
import { neverAborted } from '../../../engines/observing.ts';

const { options, logFile, jobs } = JSON.parse(await readFile(process.argv[2] ?? '', 'utf8'));
const engine = createLocalEngine({ ...options, supervisor: createSupervisorClient({ logFile }) });
await engine.open(neverAborted);
for (const job of jobs) await engine.submit(job, neverAborted);
for (;;) {
  await engine.observe(new Map(), neverAborted);
  await sleep(5);
}
