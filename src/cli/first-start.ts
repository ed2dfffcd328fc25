import type { Config } from '../config/schema.ts';

interface FirstUsers {
  admin: { userId: string; token: string };
  user: { userId: string; token: string };
  config: Config;
}

/** What `serve` prints when it is ready; on the very first start with tokens and something to paste. */
export function firstStartMessage(version: string, url: string, first: FirstUsers | null): string {
  const ready = `Bursar ${version} serves ${url} (documentation at ${url}/docs/)\n`;
  if (first === null) return ready;
  const { admin, user, config } = first;
  const auth = `-H 'Authorization: Bearer ${user.token}'`;
  return `${ready}
This is its first start, so it made two users. Their tokens are shown this once; keep them.

  administrator ${admin.userId}: ${admin.token}
  user          ${user.userId}: ${user.token}

Submit a job, list jobs, read quotas:

  curl -X POST ${url}/jobs/${batchSystem(config)}/ ${auth} -H 'Content-Disposition: attachment; filename=job.zip' -H 'Payload: {"command": "echo hello from bursar", "node_number": "1", "core_number": "1", "runtime": "0.1", "title": "First job"}'
  curl ${url}/jobs/ ${auth}
  curl ${url}/quotas/ ${auth}

`;
}

function batchSystem(config: Config): string {
  const names = Object.keys(config.systems);
  return names.find((name) => config.systems[name]?.kind === 'batch') ?? names[0] ?? '';
}
