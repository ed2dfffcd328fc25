import { captureResponse, startBareHttp } from '../baselines.ts';
import type { Benchmark } from '../benchmark.ts';
import { startPopulation } from '../users/population.ts';
import { startUsers } from '../users/users.ts';

const pageSize = 100;
const connections = 50;

/** Pages that start at random jobs, so that hardly any page is read twice. */
export const randomPages: Benchmark = {
  name: 'random-pages',
  async run(bench) {
    const { pagingUsers, jobsPerPagingUser, seconds } = bench.size;
    const users = startUsers(bench);
    const { bursar, jobs } = await startPopulation(bench, pagingUsers, jobsPerPagingUser);
    // The last jobs of a user do not fill a page. The jobs of a user follow each other.
    const startsPage = (_: unknown, index: number) => jobs[index]?.token === jobs[index + pageSize]?.token;
    const questions = jobs.filter(startsPage).map(({ id, token }) => {
      const cursor = Buffer.from(`after:${id - 1}`).toString('base64url');
      return { path: `/jobs/?limit=${pageSize}&cursor=${cursor}`, token };
    });
    const [first] = questions;
    if (first === undefined) throw new Error('the users have too few jobs for a page');
    const headers = { authorization: `Bearer ${first.token}` };
    const bareUrl = await startBareHttp(bench, await captureResponse(bursar.url + first.path, headers));
    const groups = [{ weight: 1, questions }];
    const read = (url: string) => async () =>
      (await users.read({ url, groups, pace: { connections }, seconds })).perSecond;
    await bench.compare({
      scenario: `random pages of ${pageSize} jobs of ${pagingUsers} users`,
      baseline: 'bare node:http, same bytes',
      unit: 'requests/s',
      threshold: { atLeast: 0.4 },
      ours: read(bursar.url),
      theirs: read(bareUrl),
    });
  },
};
