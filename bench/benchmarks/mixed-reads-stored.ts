import type { Benchmark } from '../benchmark.ts';
import { createSubmitter, mixedReads, type Population, startPopulation } from '../users/population.ts';
import { startUsers } from '../users/users.ts';

const connections = 50;
const submissionsPerSecond = 10;

/** Reads and submissions cost the same however many jobs are stored. */
export const mixedReadsStored: Benchmark = {
  name: 'mixed-reads-stored',
  async run(bench) {
    const { users: userCount, jobsPerUser, storedJobs, seconds } = bench.size;
    const users = startUsers(bench);
    const [many, few] = await Promise.all([
      startPopulation(bench, userCount, jobsPerUser, { storedJobs }),
      startPopulation(bench, userCount, jobsPerUser),
    ]);
    const submitter = await createSubmitter(bench, users);
    const readBeside = (population: Population) => async () => {
      const load = { url: population.bursar.url, groups: mixedReads(population), pace: { connections }, seconds };
      return (await submitter.during(population, submissionsPerSecond, () => users.read(load))).perSecond;
    };
    await bench.compare({
      scenario: `random reads, ${submissionsPerSecond} jobs/s submitted and run, ${storedJobs.toLocaleString('en')} jobs stored`,
      baseline: `the same with ${(userCount * jobsPerUser).toLocaleString('en')} stored`,
      unit: 'requests/s',
      threshold: { atLeast: 0.9 },
      ours: readBeside(many),
      theirs: readBeside(few),
    });
  },
};
