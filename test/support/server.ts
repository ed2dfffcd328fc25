import { resolve } from 'node:path';
import { pino } from 'pino';
import { defaultTuning, type Tuning } from '../../src/composition/tuning.ts';
import { loadConfig } from '../../src/config/load.ts';
import { startBursar } from '../../src/main.ts';
import { listUserIds } from '../../src/store/identity/users.ts';
import { prepareDataFolder, removeDataFolder } from './data-folder.ts';
import { registerDatabase, unregisterDatabase, withDatabase } from './database.ts';
import { checkLog, findTestFile } from './log-secrets.ts';
import { runSuccessfully } from './program.ts';
import { createSimulatedBackend, findSimulatedIsolation, stopSimulatedSystems } from './simulated-systems.ts';
import { createToken, type TokenOptions } from './tokens.ts';

export interface ServerOptions {
  /** The data folder of an earlier server. Default: a new folder. */
  data?: string;
  /** The configuration to serve. Default: the shipped one. */
  config?: unknown;
  /** Other values than those of production. */
  tuning?: Partial<Tuning>;
}

export interface InProcessOptions extends ServerOptions {
  /** `local`: a supervisor runs the jobs of local systems, as in production. For tests about these. Default: `simulated`. */
  engine?: 'simulated' | 'local';
}

/** A server on a free port, with its own data folder. Tests call it over real HTTP. */
export interface TestServer {
  url: string;
  data: string;
  /** Of a server whose metrics have a port of their own. */
  metricsUrl?: string;
  /** The tokens of the first start; empty on a data folder that has users already. */
  adminToken: string;
  userToken: string;
  /** Everything the server has logged, one JSON object a line. */
  log(): string;
  /** Creates the user if there is none, and a token. */
  token(user: string, options?: TokenOptions): Promise<string>;
  /** The variables of a command line that uses the same data folder. */
  environment: NodeJS.ProcessEnv;
  /** Runs such a command line in the process of the test. Throws if the exit code is not 0. */
  bursar(...args: string[]): Promise<{ stdout: string; stderr: string }>;
  /** Stops the server. The data folder stays. */
  stop(): Promise<unknown>;
  /** Stops the server and removes its data folder and its database. */
  dispose(): Promise<void>;
}

/** The users that the first start of a server creates. */
export const firstUsers = { admin: '300001', user: '301330' } as const;

/**
 * Starts a server in this process. Use it unless the test needs a process: to kill it, to measure its memory, or to read its
 * standard output and exit code. `spawnServer` is for those.
 */
export async function startServer({ engine = 'simulated', ...options }: InProcessOptions = {}): Promise<TestServer> {
  const { data, environment } = await prepareDataFolder(options);
  const config = loadConfig(environment);
  let log = '';
  const testFile = findTestFile();
  const destination = {
    write(line: string) {
      log += line;
      checkLog(line, testFile);
    },
  };
  const logger = pino({ level: config.log.level, base: null }, destination);
  const bursar = await startBursar(config, 'all', logger, 'test', {
    tuning: { ...defaultTuning, ...options.tuning },
    ...(engine === 'simulated' ? { createBackend: createSimulatedBackend, findIsolation: findSimulatedIsolation } : {}),
  });
  registerDatabase(data, bursar.db);
  const isFirstStart = (await listUserIds(bursar.db)).length === 0;
  const firstToken = async (user: string, admin: boolean) =>
    isFirstStart ? await createToken(bursar.db, user, { admin, name: 'first start' }) : '';
  const adminToken = await firstToken(firstUsers.admin, true);
  const userToken = await firstToken(firstUsers.user, false);
  const url = await bursar.app.listen({ host: config.server.host, port: config.server.port });
  const { host, port } = config.metrics;
  const metricsUrl = await bursar.metricsApp?.listen({ host, port: port ?? 0 });
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= bursar.stop().finally(() => unregisterDatabase(data));
    return stopped;
  };
  return {
    url,
    data,
    ...(metricsUrl === undefined ? {} : { metricsUrl }),
    adminToken,
    userToken,
    log: () => log,
    token: (user, tokenOptions) => withDatabase(data, (db) => createToken(db, user, tokenOptions)),
    environment,
    bursar: (...args) => runSuccessfully(args, environment),
    stop,
    dispose: async () => {
      await stop();
      await stopSimulatedSystems(resolve(data));
      await removeDataFolder(data);
    },
  };
}
