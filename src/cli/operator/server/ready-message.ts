import type { Config } from '../../../config/schema.ts';
import type { FirstUsers } from '../../../services/identity/provision-token.ts';

/** The message that `serve` prints when it is ready. A first start adds how to create users, or those of a demonstration. */
export function readyMessage(
  version: string,
  { api: url, metrics }: { api: string; metrics: string | undefined },
  config: Config,
  notIsolated: ReadonlyMap<string, string>,
  firstUsers: FirstUsers,
  /** How users of this installation start the command line. */
  command: string,
): string {
  const metricsLine = metrics === undefined ? '' : `Metrics at ${metrics}/metrics\n`;
  const serves = `Bursar ${version} serves ${url} (documentation at ${url}/docs/)\n`;
  const ready = `${serves}${metricsLine}${isolationWarning(notIsolated)}`;
  if (firstUsers.kind === 'known') return ready;
  if (firstUsers.kind === 'none')
    return `${ready}
There are no users yet. Create an administrator, and a link to sign in with a browser:

  ${command} token create --user 1 --role administrator --name first --expires 30d
  ${command} user sign-in-link --user 1

`;
  const { admin, user } = firstUsers;
  // The name in the certificate is seldom that of the local address.
  const exampleUrl = config.server.tls === undefined ? url : (config.server.publicUrl?.replace(/\/$/, '') ?? url);
  const signInUrl = (path: string) => new URL(path, config.server.publicUrl ?? url).href;
  const auth = `-H 'Authorization: Bearer ${user.token}'`;
  return `${ready}
First start: two users for a demonstration were created. Save their tokens now, they are not shown again.

  administrator ${admin.userId}: ${admin.token}
  user          ${user.userId}: ${user.token}

Sign in with a browser. Each link works once, for 10 minutes; "bursar user sign-in-link" prints another.

  administrator ${admin.userId}  ${signInUrl(admin.signInPath)}
  user          ${user.userId}  ${signInUrl(user.signInPath)}

Submit a job, list your jobs, read your quotas:

  ${command} login ${exampleUrl} --token ${user.token}
  ${command} submit --system ${findBatchSystem(config)} --command 'echo hello from bursar' --runtime 0.1 --title 'First job' --watch
  ${command} jobs
  ${command} quota

The same with curl:

  curl -X POST ${exampleUrl}/jobs/${findBatchSystem(config)}/ ${auth} -H 'Content-Disposition: attachment; filename=job.zip' -H 'Payload: {"command": "echo hello from bursar", "node_number": "1", "core_number": "1", "runtime": "0.1", "title": "First job"}'
  curl ${exampleUrl}/jobs/ ${auth}
  curl ${exampleUrl}/quotas/ ${auth}

`;
}

function isolationWarning(notIsolated: ReadonlyMap<string, string>): string {
  if (notIsolated.size === 0) return '';
  const lines = [...notIsolated].map(([hpc, reason]) => `  ${hpc}: ${reason}\n`);
  return `
WARNING: the jobs of these systems are not isolated.
${lines.join('')}
Everybody who can submit a job can read and change the files of all other jobs and of the account that runs them. Unless the
jobs run on another host over ssh, that includes Bursar's database and its tokens. docs/security.md says what to do.

`;
}

function findBatchSystem(config: Config): string {
  const names = Object.keys(config.systems);
  return names.find((name) => config.systems[name]?.kind === 'batch') ?? names[0] ?? '';
}
