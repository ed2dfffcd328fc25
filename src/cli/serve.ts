import type { Role } from '../composition/database.ts';
import type { Config } from '../config/schema.ts';
import { BursarError } from '../domain/errors.ts';
import { type Bursar, startBursar } from '../main.ts';
import { enrolUser } from '../services/identity/enrolment.ts';
import { issueToken } from '../services/identity/tokens.ts';
import { listUserIds } from '../store/identity/users.ts';
import { openLog } from './log.ts';
import { readyMessage } from './ready-message.ts';
import { waitForStopReason } from './stop-reason.ts';

export interface ServeOptions {
  role: Role;
  stopWithParent: boolean;
}

/** Serves until SIGTERM, SIGINT or SIGHUP, then stops in order. */
export async function serve(config: Config, { role, stopWithParent }: ServeOptions, version: string): Promise<void> {
  const parent = stopWithParent ? process.ppid : undefined;
  const log = openLog(config.log);
  const bursar = await startBursar(config, role, log, version);
  let stopReason: Promise<string>;
  try {
    await listen(bursar, config);
    const message = readyMessage(version, baseUrl(bursar), config, await createFirstUsers(bursar));
    // Before the message, which may be answered by a signal at once.
    stopReason = waitForStopReason(parent);
    process.stdout.write(message);
  } catch (error) {
    await bursar.stop();
    throw error;
  }

  const reason = await stopReason;
  log.info({ reason }, 'stopping: finishing open requests; running jobs continue');
  log.flush();
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
