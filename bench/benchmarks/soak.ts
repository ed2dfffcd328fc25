import type { Benchmark } from '../benchmark.ts';
import { cpuSeconds, peakMemoryMb, resetPeakMemory } from '../processes.ts';
import { createSubmitter, mixedReads, startPopulation } from '../users/population.ts';
import { startUsers } from '../users/users.ts';

const submissionsPerSecond = 5;
const readsPerSecond = 200;
const probesPerSecond = 20;

/** An ordinary load for a long time: `--soak-minutes 10` shows whether memory grows. */
export const soak: Benchmark = {
  name: 'soak',
  async run(bench) {
    const { users: userCount, jobsPerUser, soakSeconds: seconds } = bench.size;
    const users = startUsers(bench);
    const population = await startPopulation(bench, userCount, jobsPerUser);
    const { url, pid } = population.bursar;
    const submitter = await createSubmitter(bench, users);
    const groups = mixedReads(population);
    const probe = [{ weight: 1, questions: [{ path: '/livez' }] }];
    const scenario = `${submissionsPerSecond} jobs/s and ${readsPerSecond} reads/s for ${seconds} s`;
    await bench.measureFigures({
      rows: [
        { scenario: `${scenario}: CPU`, baseline: 'one CPU', unit: '% CPU', threshold: { atMost: 25 } },
        { scenario: `${scenario}: peak memory`, baseline: '', unit: 'MB', threshold: { atMost: 170 } },
        { scenario: `${scenario}: /livez, p99.9`, baseline: '', unit: 'ms', threshold: { atMost: 20 } },
      ],
      rounds: 1,
      ours: () =>
        submitter.during(population, submissionsPerSecond, async () => {
          resetPeakMemory(pid);
          const [cpuBefore, startedAt] = [cpuSeconds(pid), performance.now()];
          const [, { p999Ms }] = await Promise.all([
            users.read({ url, groups, pace: { perSecond: readsPerSecond }, seconds }),
            users.read({ url, groups: probe, pace: { perSecond: probesPerSecond }, seconds }),
          ]);
          const cpuShare = (cpuSeconds(pid) - cpuBefore) / ((performance.now() - startedAt) / 1000);
          return [cpuShare * 100, peakMemoryMb(pid), p999Ms];
        }),
    });
  },
};
