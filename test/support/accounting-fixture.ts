import { type Caller, createCaller } from './api.ts';
import { loadOpenApiContract, type OpenApiContract } from './contract.ts';
import { databaseEnvironment, queryDatabase } from './database.ts';
import { bursar, type ProgramOutcome } from './program.ts';
import type { ServerOptions, TestServer } from './server.ts';
import { type ServerProcess, spawnServer } from './server-process.ts';
import type { ShippedConfig as Config } from './shipped-config.ts';
import { shippedConfig } from './shipped-config.ts';

interface AccountingFixtureOptions {
  /** The grant of each member of each project. */
  timeSeconds?: number;
  spaceKb?: number;
  /** Changes the configuration further. */
  adjust?(config: Config): void;
  tuning?: ServerOptions['tuning'];
  /** Runs the server in its own process, so that it can be killed. Default: in this process, which is faster. */
  ownProcess?: boolean;
}

/** A server with configured grants, and callers for its administrator and any number of users. */
export interface AccountingFixture {
  /** The current server. `restart` replaces it. */
  server: TestServer;
  admin: Caller;
  /** Returns a caller for a user, who is created on the first call. All callers of a user share one token. */
  user(id: string): Promise<Caller>;
  /** Like `user`, but responses are not checked against the OpenAPI document. For responses that are not JSON. */
  uncheckedUser(id: string): Promise<Caller>;
  /** Returns the token of a user, for requests that a caller cannot send. */
  token(id: string): Promise<string>;
  /** Like `user`, for a further administrator. */
  administrator(id: string): Promise<Caller>;
  /** Queries the database directly. */
  query<Row>(query: string, ...values: (string | number)[]): Promise<Row[]>;
  /** Changes the database directly, in a way that the API does not allow. */
  tamper(statement: string, ...values: (string | number)[]): Promise<void>;
  bursar(...args: string[]): Promise<ProgramOutcome>;
  /** Ends the server and starts another one on the same data folder. Earlier callers do not reach it. SIGKILL needs `ownProcess`. */
  restart(signal: 'SIGTERM' | 'SIGKILL', adjust?: (config: Config) => void): Promise<void>;
  dispose(): Promise<void>;
}

export async function openAccountingFixture(options: AccountingFixtureOptions = {}): Promise<AccountingFixture> {
  const config = fixtureConfig(options);
  const start = options.ownProcess ? spawnServer : startInProcess;
  const tuning = options.tuning && { tuning: options.tuning };
  let server = await start({ config, ...tuning });
  const { data, adminToken } = server;
  let contract: OpenApiContract = await loadOpenApiContract(server);
  const tokens = new Map<string, Promise<string>>();
  let latest: Promise<unknown> = Promise.resolve();

  /** Creates tokens one after the other: two SQLite connections of one process would block each other. */
  function tokenOf(id: string, role: 'user' | 'admin'): Promise<string> {
    const token = tokens.get(id) ?? latest.then(() => server.token(id, { admin: role === 'admin' }));
    tokens.set(id, token);
    latest = token;
    return token;
  }
  return {
    get server() {
      return server;
    },
    get admin() {
      return contract.callerFor(adminToken);
    },
    user: async (id) => contract.callerFor(await tokenOf(id, 'user')),
    uncheckedUser: async (id) => createCaller(server.url, id === adminId ? adminToken : await tokenOf(id, 'user')),
    token: (id) => tokenOf(id, 'user'),
    administrator: async (id) => contract.callerFor(await tokenOf(id, 'admin')),
    query: (query, ...values) => queryDatabase(data, query, values),
    tamper: async (statement, ...values) => {
      await queryDatabase(data, statement, values);
    },
    bursar: (...args) =>
      bursar(args, { BURSAR_DATA: data, BURSAR_CONFIG: `${data}.yaml`, ...databaseEnvironment(data) }),
    restart: async (signal, adjust) => {
      await (signal === 'SIGTERM' ? server.stop() : kill(server));
      adjust?.(config);
      server = await start({ data, config, ...tuning });
      contract = await loadOpenApiContract(server);
    },
    dispose: () => server.dispose(),
  };
}

/** Imports the server lazily, so that tests with `ownProcess` do not load it. */
async function startInProcess(options: ServerOptions): Promise<TestServer> {
  const { startServer } = await import('./server.ts');
  return await startServer(options);
}

async function kill(server: TestServer): Promise<void> {
  if (!('kill' in server)) throw new Error('only a server in its own process can be killed: set ownProcess');
  await (server as ServerProcess).kill();
}

/** A job that ignores SIGTERM is then killed one second after its time limit. */
export function setShortKillGrace(config: Config): void {
  for (const { engine } of Object.values(config.systems)) engine.killGraceSeconds = 1;
}

/** The administrator that the first start of a server creates. */
export const adminId = '300001';

function fixtureConfig({ timeSeconds = 100_000, spaceKb = 100_000, adjust }: AccountingFixtureOptions): Config {
  const config = shippedConfig();
  for (const system of Object.values(config.systems)) {
    for (const project of system.projects) project.grant = { timeSeconds, spaceKb };
  }
  adjust?.(config);
  return config;
}

/** The project that most tests use, and its path in URLs. */
export const defaultProject = { hpc: 'hpc_one', project: 'proj_hpc_one_01' } as const;
export const defaultProjectPath = 'hpc_one/proj_hpc_one_01';
