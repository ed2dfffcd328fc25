import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { openSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { freePorts } from '../test/support/ports.ts';
import type { SlurmCluster } from '../test/support/slurm-cluster.ts';
import { until } from '../test/support/until.ts';
import type { Bench } from './benchmark.ts';
import { pinToCpu, serverCpu } from './processes.ts';
import { startSlurm } from './slurm-queue.ts';

export interface Slurmrestd {
  cluster: SlurmCluster;
  url: string;
  /** The authentication headers of a caller. */
  auth: Record<string, string>;
}

/** Starts a real Slurm with slurmrestd, authenticated by Slurm's JWTs. */
export async function startSlurmrestd(bench: Bench): Promise<Slurmrestd> {
  const folder = bench.temporaryFolder('jwt');
  const key = join(folder, 'key');
  writeFileSync(key, randomBytes(32), { mode: 0o600 });
  const cluster = await startSlurm(bench, {
    extraConf: ['AuthAltTypes=auth/jwt', `AuthAltParameters=jwt_key=${key}`],
  });
  const [port] = await freePorts(1);
  const options = ['-a', 'rest_auth/jwt', '-s', 'openapi/v0.0.38', `127.0.0.1:${port}`];
  const [program, ...args] = asNobody(['slurmrestd', ...options]);
  const log = openSync(join(folder, 'log'), 'a');
  const env = { ...cluster.env, SLURM_JWT: 'daemon', PATH: `${process.env.PATH}:/usr/sbin` };
  const child = spawn(program, args, { env, stdio: ['ignore', log, log] });
  bench.defer(async () => {
    child.kill();
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  });
  const url = `http://127.0.0.1:${port}`;
  const token = cluster.run('scontrol', 'token', 'lifespan=7200').trim().replace('SLURM_JWT=', '');
  const auth = { 'x-slurm-user-name': userInfo().username, 'x-slurm-user-token': token };
  const ping = () => fetch(`${url}/slurm/v0.0.38/ping`, { headers: auth }).then(({ ok }) => ok || undefined);
  await until('slurmrestd answers', () => ping().catch(() => undefined));
  pinToCpu(child.pid, serverCpu);
  return { cluster, url, auth };
}

/** slurmrestd refuses to run as root. */
function asNobody(command: [string, ...string[]]): [string, ...string[]] {
  if (process.getuid?.() !== 0) return command;
  return ['setpriv', '--reuid=nobody', '--regid=nogroup', '--clear-groups', ...command];
}
