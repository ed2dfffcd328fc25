import type { Benchmark } from '../benchmark.ts';
import { loadCpu, moveJobs } from '../processes.ts';
import { createSubmitter, mixedReads, startMixedBaseline, startPopulation } from '../users/population.ts';
import { startUsers } from '../users/users.ts';

const connections = 50;
const submissionsPerSecond = 10;

export const mixedReadsBenchmark: Benchmark = {
  name: 'mixed-reads',
  async run(bench) {
    const { users: userCount, jobsPerUser, seconds } = bench.size;
    const users = startUsers(bench);
    const population = await startPopulation(bench, userCount, jobsPerUser);
    const submitter = await createSubmitter(bench, users);
    const groups = mixedReads(population);
    const bareUrl = await startMixedBaseline(bench, population);
    const read = async (url: string) => {
      const { perSecond, p99Ms } = await users.read({ url, groups, pace: { connections }, seconds });
      return [perSecond, p99Ms];
    };
    const scenario = `random reads of ${userCount.toLocaleString('en')} users`;
    const baseline = 'bare node:http, same bytes';
    await bench.compareFigures({
      rows: [
        { scenario, baseline, unit: 'requests/s', threshold: { atLeast: 0.5 } },
        { scenario: `${scenario}, p99`, baseline, unit: 'ms', threshold: { atMost: 3 } },
      ],
      ours: () => read(population.bursar.url),
      theirs: () => read(bareUrl),
    });

    const busyScenario = `${scenario}, ${submissionsPerSecond} jobs/s submitted, and run on another CPU`;
    const busyBaseline = 'bare node:http, same bytes, beside the same jobs';
    bench.defer(moveJobs(population.bursar.pid, loadCpu));
    const readBeside = (url: string) => () => submitter.during(population, submissionsPerSecond, () => read(url));
    await bench.compareFigures({
      rows: [
        { scenario: busyScenario, baseline: busyBaseline, unit: 'requests/s', threshold: { atLeast: 0.35 } },
        { scenario: `${busyScenario}, p99`, baseline: busyBaseline, unit: 'ms', threshold: { atMost: 4 } },
      ],
      ours: readBeside(population.bursar.url),
      theirs: readBeside(bareUrl),
    });
  },
};
