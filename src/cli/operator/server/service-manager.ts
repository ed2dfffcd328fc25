import { execFile } from 'node:child_process';
import type { Logger } from 'pino';

/** Tells systemd about the state of the server. Without systemd, all of it does nothing. */
export interface ServiceManager {
  /** Call it when requests are accepted. Starts the watchdog too, if the unit has one. */
  ready(status: string): void;
  /** Call it when the server begins to stop. Resolves when systemd knows, so that the process may end. */
  stopping(): Promise<void>;
}

/**
 * Node has no datagram sockets of Unix, so the program `systemd-notify` sends the messages. The unit needs
 * `NotifyAccess=all`, because that program is another process than the server.
 *
 * A watchdog message proves that the event loop turns and that a query of the database ends. A query that fails is an end as
 * well: a restart does not bring back a PostgreSQL that is down, and Bursar waits for it better without one.
 */
export function connectServiceManager(
  environment: NodeJS.ProcessEnv,
  queryDatabase: () => Promise<unknown>,
  log: Logger,
): ServiceManager {
  const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: watchdogMicroseconds } = environment;
  if (!socket) return { ready: () => undefined, stopping: () => Promise.resolve() };
  // No other child process may speak for the server.
  delete environment.NOTIFY_SOCKET;

  const notify = (...assignments: string[]) =>
    new Promise<void>((resolve) => {
      const env = { PATH: environment.PATH, NOTIFY_SOCKET: socket };
      execFile('systemd-notify', assignments, { env, timeout: notifyTimeoutMs }, (error) => {
        if (error) log.error({ err: error }, 'systemd could not be notified: check that systemd-notify is installed');
        resolve();
      });
    });
  const startWatchdog = (limitMs: number) => {
    let isRunning = false;
    setInterval(async () => {
      if (isRunning) return;
      isRunning = true;
      await queryDatabase().catch(() => undefined);
      await notify('WATCHDOG=1');
      isRunning = false;
    }, limitMs / messagesPerLimit).unref();
  };
  return {
    ready(status) {
      void notify('READY=1', `STATUS=${status}`);
      if (watchdogMicroseconds !== undefined) startWatchdog(Number(watchdogMicroseconds) / 1000);
    },
    stopping: () => notify('STOPPING=1', 'STATUS=finishing open requests; running jobs continue'),
  };
}

/** So that one message may be late. */
const messagesPerLimit = 3;
const notifyTimeoutMs = 10_000;
