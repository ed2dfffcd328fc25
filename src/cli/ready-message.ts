import type { Config } from '../config/schema.ts';

interface FirstUsers {
  admin: { userId: string; token: string };
  user: { userId: string; token: string };
}

/** The message that `serve` prints when it is ready. A first start adds tokens and example commands. */
export function readyMessage(
  version: string,
  { api: url, metrics }: { api: string; metrics: string | undefined },
  config: Config,
  firstUsers: FirstUsers | null,
): string {
  const metricsLine = metrics === undefined ? '' : `Metrics at ${metrics}/metrics\n`;
  const ready = `Bursar ${version} serves ${url} (documentation at ${url}/docs/)\n${metricsLine}`;
  if (firstUsers === null) return ready;
  const { admin, user } = firstUsers;
  const auth = `-H 'Authorization: Bearer ${user.token}'`;
  return `${ready}
First start: two users were created. Save their tokens now, they are not shown again.

  administrator ${admin.userId}: ${admin.token}
  user          ${user.userId}: ${user.token}

Submit a job, list your jobs, read your quotas:

  curl -X POST ${url}/jobs/${findBatchSystem(config)}/ ${auth} -H 'Content-Disposition: attachment; filename=job.zip' -H 'Payload: {"command": "echo hello from bursar", "node_number": "1", "core_number": "1", "runtime": "0.1", "title": "First job"}'
  curl ${url}/jobs/ ${auth}
  curl ${url}/quotas/ ${auth}

`;
}

function findBatchSystem(config: Config): string {
  const names = Object.keys(config.systems);
  return names.find((name) => config.systems[name]?.kind === 'batch') ?? names[0] ?? '';
}
