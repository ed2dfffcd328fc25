import { setTimeout as sleep } from 'node:timers/promises';
import { createCaller } from '../../test/support/api.ts';
import { startGroupedPass } from '../baselines.ts';
import type { Benchmark } from '../benchmark.ts';
import { startFilled } from '../bursar.ts';
import { download } from '../download.ts';

const maxUsers = 2000;
const jobsPerUser = 20;

async function measureSeconds(work: () => Promise<{ status: number; text: string }>): Promise<number> {
  const startedAt = performance.now();
  const { status, text } = await work();
  if (status !== 200) throw new Error(text);
  return (performance.now() - startedAt) / 1000;
}

export const storedLedger: Benchmark = {
  name: 'stored-ledger',
  async run(bench) {
    const { storedJobs } = bench.size;
    const users = Math.min(maxUsers, Math.ceil(storedJobs / jobsPerUser));
    const bursar = await startFilled(bench, { jobs: storedJobs, users });
    const admin = createCaller(bursar.url, bursar.adminToken);
    const groupedPass = await startGroupedPass(bench, bursar.databaseFile);
    const stored = `${storedJobs.toLocaleString('en')} jobs stored`;

    await bench.compare({
      scenario: `verification of the ledger, ${stored}`,
      baseline: 'one grouped pass over the entries',
      unit: 's',
      threshold: { atMost: 2 },
      ours: () => measureSeconds(() => admin.get('/admin/ledger/verification/')),
      theirs: groupedPass,
    });

    // Not parsed: that would delay the requests of this process that are measured meanwhile.
    const auth = { authorization: `Bearer ${bursar.adminToken}` };
    const readUsage = async () => {
      const startedAt = performance.now();
      await download(`${bursar.url}/admin/usage/`, auth);
      return (performance.now() - startedAt) / 1000;
    };
    await bench.measure({
      scenario: `GET /admin/usage/, ${stored}`,
      baseline: 'the grouped pass of the row above',
      unit: 's',
      threshold: { atMost: 0.5 },
      ours: readUsage,
    });
    await bench.measure({
      scenario: `longest wait for /livez meanwhile, ${stored}`,
      baseline: 'no other request',
      unit: 's',
      threshold: { atMost: 0.05 },
      async ours() {
        const reading = { isOver: false };
        const over = readUsage().finally(() => {
          reading.isOver = true;
        });
        let longest = 0;
        for (; !reading.isOver; await sleep(1))
          longest = Math.max(longest, await measureSeconds(() => admin.get('/livez')));
        await over;
        return longest;
      },
    });
  },
};
