import { Bursar, type JobHandle } from '#client';
import { firstUsers, type TestServer } from './server.ts';
import { spawnServer } from './server-process.ts';
import { webhookConfig } from './webhooks.ts';
import { createZip } from './zip.ts';

/** The server for the data: its webhook is at an address of this machine. */
export const startDemoServer = () => spawnServer({ config: webhookConfig() });

/** The jobs to which the pages of the web page are opened. */
export interface DemoData {
  succeeded: JobHandle;
  failed: JobHandle;
  running: JobHandle;
  webhookId: number;
}

const simulation = `#!/bin/bash
echo "Reading parameters.json"
for step in $(seq 1 120); do
  printf 'step %4d   energy %.6f kJ/mol   temperature %.2f K\\n' $step $((RANDOM % 1000)).$RANDOM 300.$((RANDOM % 100))
done
mkdir -p results/frames
echo 'step,energy,temperature' > results/energy.csv
for step in $(seq 1 40); do echo "$step,-$((4000 + RANDOM % 500)).5,30$((RANDOM % 9)).1" >> results/energy.csv; done
echo '{ "steps": 120, "converged": true }' > results/summary.json
cp parameters.json results/frames/
echo "Finished"
`;
const chart = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 80"><title>Energy</title><polyline fill="none"
 stroke="#0b5cad" points="0,70 30,40 60,52 90,30 120,34 150,20 200,12"/></svg>`;

/** Fills a server with jobs in all states, tokens, a webhook and grants, as a group of scientists would. */
export async function createDemoData({ url, userToken, adminToken }: TestServer): Promise<DemoData> {
  const user = new Bursar({ url, token: userToken });
  const admin = new Bursar({ url, token: adminToken });
  const files = {
    'run.sh': simulation,
    'parameters.json': '{ "temperature": 300, "box": 4.2 }\n',
    'results/energy.svg': chart,
  };
  const input = new Uint8Array(await createZip(files));
  const batch = { hpc: 'hpc_one', input, nodes: 2, coresPerNode: 6, runtime: 2 };
  const succeeded = await user.submit({
    ...batch,
    command: 'bash run.sh',
    title: 'Water box, 300 K',
    tags: ['water', 'nvt'],
  });
  const failed = await user.submit({
    ...batch,
    command: `bash -c 'echo "Reading topology.itp"; echo "ValueError: box length must be positive" >&2; exit 3'`,
    title: 'Water box, 310 K',
    tags: ['water', 'nvt'],
  });
  await Promise.all([succeeded.wait(), failed.wait()]);
  const script = new Uint8Array(await createZip({ 'main.sh': 'echo "fit converged: $1"\n' }));
  const tool = { hpc: 'hpc_two', tool: 'BASH', input: script, runtime: 0.25 };
  for (const name of ['alpha', 'beta', 'gamma', 'delta'])
    await user.submit({ ...tool, title: `Fit of ${name}`, params: { arguments: [name] }, tags: ['fit'] });
  const cancelled = await user.submit({ ...batch, command: 'sleep 600', title: 'Membrane, first try' });
  await cancelled.cancel();
  await cancelled.wait();
  for (const temperature of [280, 290, 320])
    await user.submit({ ...batch, command: 'bash run.sh', title: `Water box, ${temperature} K`, tags: ['water'] });
  const command = `bash -c 'for step in $(seq 1 9999); do echo "step $step of 9999"; sleep 1; done'`;
  const running = await user.submit({ ...batch, command, title: 'Membrane with channel', tags: ['membrane'] });
  const webhookId = await createSettings(user, admin);
  return { succeeded, failed, running, webhookId };
}

/** Returns the identifier of the webhook. */
async function createSettings(user: Bursar, admin: Bursar): Promise<number> {
  await user.api.createToken({ body: { name: 'notebook', scopes: ['jobs:read', 'quotas:read'] } });
  const webhook = await user.api.createWebhook({ body: { url: 'http://127.0.0.1:9/bursar', events: ['job.ended'] } });
  const path = { hpc: 'hpc_one', project_name: 'proj_hpc_one_01' };
  const grant = { kind: 'top_up', resource: 'time', amount: 360_000, reason: 'Second call of the year' } as const;
  await admin.api.changeMemberQuota({
    path: { ...path, user_id: firstUsers.user },
    body: { ...grant, source: 'new' },
    headers: { 'Idempotency-Key': 'demo-grant' },
  });
  return webhook.id;
}
