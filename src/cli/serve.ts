import { once } from 'node:events';
import type { Role } from '../composition/database.ts';
import type { Config } from '../config/schema.ts';
import { BursarError } from '../domain/errors.ts';
import { type Bursar, startBursar } from '../main.ts';
import { enrolUser } from '../services/identity/enrolment.ts';
import { issueToken } from '../services/identity/tokens.ts';
import { listUserIds } from '../store/identity/users.ts';
import { openLog } from './log.ts';
import { readyMessage } from './ready-message.ts';

/** Serves until SIGTERM or SIGINT, then stops in order. A second signal exits at once. */
export async function serve(config: Config, role: Role, version: string): Promise<void> {
  const log = openLog(config.log.level);
  const bursar = await startBursar(config, role, log, version);
  try {
    await listen(bursar, config);
    process.stdout.write(readyMessage(version, baseUrl(bursar), config, await createFirstUsers(bursar)));
  } catch (error) {
    await bursar.stop();
    throw error;
  }

  const [signal] = await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
  log.info({ signal }, 'stopping: finishing open requests; running jobs continue');
  log.flush();
  for (const secondSignal of ['SIGTERM', 'SIGINT'] as const) process.once(secondSignal, () => process.exit(130));
  await bursar.stop();
  log.info({}, 'stopped');
  // Work that could not be stopped, such as a read of a file system that hangs, must not keep the process alive.
  process.exit();
}

async function listen({ app }: Bursar, { server: { host, port } }: Config): Promise<void> {
  await app.listen({ host, port }).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'EADDRINUSE') {
      throw new BursarError('invalid_config', `Port ${port} is already in use. Set BURSAR_PORT to another port.`, {
        cause,
      });
    }
    if (cause.code === 'EADDRNOTAVAIL' || cause.code === 'ENOTFOUND' || cause.code === 'EACCES') {
      throw new BursarError('invalid_config', `Cannot listen on ${host} port ${port}: ${cause.message}`, { cause });
    }
    throw cause;
  });
}

function baseUrl({ app }: Bursar): string {
  const address = app.server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no address');
  const host = ['0.0.0.0', '::'].includes(address.address) ? '127.0.0.1' : address.address;
  return `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`;
}

/** Creates an administrator and an ordinary user if the database has no users; returns null otherwise. */
async function createFirstUsers({ db }: Bursar) {
  if ((await listUserIds(db)).length > 0) return null;
  const now = Date.now();
  const create = async (userId: string, admin: boolean) => {
    await enrolUser(db, userId, admin ? 'admin' : 'user', now);
    const token = await issueToken(db, { userId, name: 'first start', admin, expiresAt: null }, now);
    return { userId, token };
  };
  return { admin: await create('300001', true), user: await create('301330', false) };
}
