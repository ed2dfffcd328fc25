import { Server as TlsServer } from 'node:tls';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Role } from '../../../composition/database.ts';
import { toHpcSystems } from '../../../config/hpc-systems.ts';
import { findConfigFile } from '../../../config/load.ts';
import { isLoopback } from '../../../config/loopback.ts';
import type { Config } from '../../../config/schema.ts';
import { BursarError } from '../../../domain/errors.ts';
import { type StartOptions, startBursar } from '../../../main.ts';
import { prepareFirstUsers } from '../../../services/identity/provision-token.ts';
import { pingDatabase } from '../../../store/database/database.ts';
import type { OperatorContext } from '../operator.ts';
import { localUrl } from './local-url.ts';
import { openLog } from './log.ts';
import { readyMessage } from './ready-message.ts';
import { createReloads, onHangUp } from './reload.ts';
import { connectServiceManager } from './service-manager.ts';
import { waitForStopReason } from './stop-reason.ts';

export interface ServeOptions {
  role: Role;
  stopWithParent: boolean;
}

/**
 * Serves until SIGTERM, SIGINT or the end of its terminal, then stops in order. SIGHUP reloads, in a terminal too.
 */
export async function serve(
  { config, print }: OperatorContext,
  { role, stopWithParent }: ServeOptions,
  version: string,
  startOptions?: StartOptions,
): Promise<void> {
  const parent = stopWithParent ? process.ppid : undefined;
  const { log, reopen } = openLog(config.log);
  const reloads = createReloads(log);
  if (config.log.file !== undefined) reloads.onReload('log file', reopen);
  const terminalClosed = new Promise<string>((resolve) => {
    onHangUp(reloads.reload, () => resolve('the terminal of the server has closed'));
  });
  const bursar = await startBursar(config, role, log, version, startOptions);
  if (bursar.reloadCertificate !== undefined) reloads.onReload('TLS certificate', bursar.reloadCertificate);
  const serviceManager = connectServiceManager(process.env, () => pingDatabase(bursar.db), log);
  let stopReason: Promise<string>;
  try {
    await listen(bursar.app, config.server, 'BURSAR_PORT');
    const { host, port } = config.metrics;
    if (bursar.metricsApp !== undefined) await listen(bursar.metricsApp, { host, port: port ?? 0 }, 'metrics.port');
    warnWithoutTls(config, log);
    const urls = { api: baseUrl(bursar.app), metrics: bursar.metricsApp && baseUrl(bursar.metricsApp) };
    const { db, notIsolated } = bursar;
    const provision = { db, systems: toHpcSystems(config), providers: config.oidc };
    const isDemonstration = findConfigFile(process.env) === null && isLoopback(config.server.host);
    const firstUsers = await prepareFirstUsers(provision, isDemonstration, Date.now());
    const command = stopWithParent ? 'npm run -s bursar --' : 'bursar';
    const message = readyMessage(version, urls, config, notIsolated, firstUsers, command);
    // Before the message, which may be answered by a signal at once.
    stopReason = Promise.race([waitForStopReason(parent), terminalClosed]);
    print(message);
    serviceManager.ready(`serves ${urls.api}`);
  } catch (error) {
    await bursar.stop();
    throw error;
  }

  const reason = await stopReason;
  log.info({ reason }, 'stopping: finishing open requests; running jobs continue');
  log.flush();
  await Promise.all([serviceManager.stopping(), bursar.stop()]);
  log.info({}, 'stopped');
  // Work that could not be stopped, such as a read of a file system that hangs, must not keep the process alive.
  process.exit();
}

/** Without TLS, everybody between a client on another host and Bursar could read the tokens. */
function warnWithoutTls({ server }: Config, log: Logger): void {
  if (server.tls !== undefined || isLoopback(server.host)) return;
  log.warn(
    { host: server.host },
    'listening beyond this host without TLS: tokens can be read on the way. Set server.tls, or put a reverse proxy with TLS ' +
      'in front, set server.host to 127.0.0.1 if it runs on this host, and let nobody else reach this port',
  );
}

async function listen(
  app: FastifyInstance,
  { host, port }: { host: string; port: number },
  portSetting: string,
): Promise<void> {
  // For `localhost` Fastify would create a second server, for ::1, without the limits of connections and slow readers.
  await app.listen({ host: host === 'localhost' ? '127.0.0.1' : host, port }).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'EADDRINUSE') {
      const message = `Port ${port} is already in use. Set ${portSetting} to another port.`;
      throw new BursarError('invalid_config', message, { cause });
    }
    if (cause.code === 'EADDRNOTAVAIL' || cause.code === 'ENOTFOUND' || cause.code === 'EACCES') {
      throw new BursarError('invalid_config', `Cannot listen on ${host} port ${port}: ${cause.message}`, { cause });
    }
    throw cause;
  });
}

function baseUrl(app: FastifyInstance): string {
  const address = app.server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no address');
  return localUrl(address.address, address.port, app.server instanceof TlsServer);
}
