import { setTimeout as sleep } from 'node:timers/promises';
import type { Benchmark } from '../benchmark.ts';
import { unlimitedConfig } from '../bursar.ts';
import { cpuSeconds } from '../processes.ts';
import { createSubmitter, startPopulation, waitUntilAllEnded } from '../users/population.ts';
import { startUsers } from '../users/users.ts';

const submissionsPerSecond = 20;
/** Longer than the poll that finds events whose notification was missed. */
const lastEventsMs = 1500;

/**
 * The delay of an event is the time from the commit of a change to its arrival at a listener. Jobs run on the CPU of the
 * server, and each needs more than a twentieth of a second of it. Therefore the engine runs only as many at a time as the
 * machine has cores, as shipped, and the others wait: with all of them at once, the delay would be the time that the server
 * waits for its CPU.
 */
export const listeners: Benchmark = {
  name: 'listeners',
  async run(bench) {
    const { listeners: count, seconds } = bench.size;
    const users = startUsers(bench);
    const population = await startPopulation(bench, count, 1, { config: unlimitedConfig() });
    const { bursar, tokens } = population;
    const submitter = await createSubmitter(bench, users);
    const scenario = `${count.toLocaleString('en')} listeners, ${submissionsPerSecond} jobs/s submitted`;
    await bench.measureFigures({
      rows: [
        { scenario: `${scenario}: delay of an event, p99`, baseline: '', unit: 'ms', threshold: { atMost: 40 } },
        { scenario: `${scenario}: missing events`, baseline: '', unit: 'events', threshold: { atMost: 0 } },
        { scenario: `${scenario}: CPU`, baseline: 'one CPU', unit: '% CPU', threshold: { atMost: 30 } },
        { scenario: `${scenario}: last submission to last end`, baseline: '', unit: 's', threshold: { aim: 1 } },
      ],
      async ours() {
        const listening = await users.listen({ url: bursar.url, tokens });
        const submissions = await submitter.start(population, submissionsPerSecond);
        const [cpuBefore, startedAt] = [cpuSeconds(bursar.pid), performance.now()];
        await sleep((seconds ?? 0.5) * 1000);
        const cpuShare = (cpuSeconds(bursar.pid) - cpuBefore) / ((performance.now() - startedAt) / 1000);
        const submitted = await submissions.stop();
        const submittedAt = performance.now();
        await waitUntilAllEnded(population);
        const backlogSeconds = (performance.now() - submittedAt) / 1000;
        if (seconds !== null) await sleep(lastEventsMs);
        const { delayP99Ms, missing, ends } = await listening.stop();
        return [delayP99Ms, missing + submitted - ends, cpuShare * 100, backlogSeconds];
      },
    });
  },
};
