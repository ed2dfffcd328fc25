import type { Bench, Benchmark } from '../benchmark.ts';
import { seedJobs } from '../seed.ts';
import { createSubmitter, mixedReads, type Population, startPopulation } from '../users/population.ts';
import { startUsers } from '../users/users.ts';

const connections = 50;
const submissionsPerSecond = 10;

/** The jobs of the other users are older. */
async function startWithStored(bench: Bench, storedJobs: number): Promise<Population> {
  const { users, jobsPerUser } = bench.size;
  const population = await startPopulation(bench, users, jobsPerUser);
  const others = storedJobs - users * jobsPerUser;
  if (others > 0) {
    bench.log(`inserting ${others.toLocaleString('en')} jobs`);
    seedJobs(
      population.bursar.databaseFile,
      { jobs: others, ownerOf: (index) => String(500_000 + (index % 1000)) },
      () => false,
    );
  }
  return population;
}

/** Reads and submissions cost the same however many jobs are stored. */
export const mixedReadsStored: Benchmark = {
  name: 'mixed-reads-stored',
  async run(bench) {
    const { users: userCount, jobsPerUser, storedJobs, seconds } = bench.size;
    const many = await startWithStored(bench, storedJobs);
    const few = await startWithStored(bench, userCount * jobsPerUser);
    const users = startUsers(bench);
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
