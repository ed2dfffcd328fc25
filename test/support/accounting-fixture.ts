import { type Caller, createCaller } from './api.ts';
import { bursar, type CommandOutcome } from './command-line.ts';
import { loadOpenApiContract, type OpenApiContract } from './contract.ts';
import { databaseEnvironment, queryDatabase } from './database.ts';
import type { ServerOptions, TestServer } from './server.ts';
import { type ServerProcess, spawnServer } from './server-process.ts';
import type { ShippedConfig as Config } from './shipped-config.ts';
import { shippedConfig } from './shipped-config.ts';

interface AccountingFixtureOptions {
  /** What each member of each project gets when joining. */
  timeSeconds?: number;
  spaceKb?: number;
  /** Changes the configuration further. */
  adjust?(config: Config): void;
  /** Runs the server in its own process, so that it can be killed. Default: in this process, which is faster. */
  ownProcess?: boolean;
}

/** A server with small grants, its administrator, and as many users as a test wants. */
export interface AccountingFixture {
  /** The one that runs now. */
  server: TestServer;
  admin: Caller;
  /** A caller of that number, enrolled where unknown; with the same token each time. */
  user(id: string): Promise<Caller>;
  /** The same user, without every answer being held against the OpenAPI document: for what is no JSON. */
  uncheckedUser(id: string): Promise<Caller>;
  /** The token of that user, for what a caller cannot send. */
  token(id: string): Promise<string>;
  /** Another administrator. */
  administrator(id: string): Promise<Caller>;
  /** What stands in the books, read behind the server's back. */
  query<Row>(query: string, ...values: (string | number)[]): Promise<Row[]>;
  /** Does to the books what nothing but a database client can do. */
  tamper(statement: string, ...values: (string | number)[]): Promise<void>;
  bursar(...args: string[]): Promise<CommandOutcome>;
  /** Ends the server and starts another one on the same data folder. Earlier callers do not reach it. SIGKILL needs `ownProcess`. */
  restart(how: 'SIGTERM' | 'SIGKILL', adjust?: (config: Config) => void): Promise<void>;
  dispose(): Promise<void>;
}

export async function openAccountingFixture(options: AccountingFixtureOptions = {}): Promise<AccountingFixture> {
  const config = fixtureConfig(options);
  const start = options.ownProcess ? spawnServer : startInProcess;
  let server = await start({ config });
  const { data, adminToken } = server;
  let contract: OpenApiContract = await loadOpenApiContract(server);
  const tokens = new Map<string, Promise<string>>();
  let latest: Promise<unknown> = Promise.resolve();

  /** One after the other: two SQLite connections of one process would block each other. */
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
    restart: async (how, adjust) => {
      await (how === 'SIGTERM' ? server.stop() : kill(server));
      adjust?.(config);
      server = await start({ data, config });
      contract = await loadOpenApiContract(server);
    },
    dispose: () => server.dispose(),
  };
}

/** Loads the server's modules only for the tests that run it in their own process. */
async function startInProcess(options: ServerOptions): Promise<TestServer> {
  const { startServer } = await import('./server.ts');
  return await startServer(options);
}

async function kill(server: TestServer): Promise<void> {
  if (!('kill' in server)) throw new Error('only a server in its own process can be killed: set ownProcess');
  await (server as ServerProcess).kill();
}

/** Makes a stubborn job a matter of a second more than its limit. */
export function setShortKillGrace(config: Config): void {
  for (const { engine } of Object.values(config.systems)) engine.killGraceSeconds = 1;
}

/** The administrator of a fresh server. */
export const adminId = '300001';

function fixtureConfig({ timeSeconds = 100_000, spaceKb = 100_000, adjust }: AccountingFixtureOptions): Config {
  const config = shippedConfig();
  for (const system of Object.values(config.systems)) {
    for (const project of system.projects) project.grant = { timeSeconds, spaceKb };
  }
  adjust?.(config);
  return config;
}

/** The project that most tests are about, and where it is. */
export const defaultProject = { hpc: 'hpc_one', project: 'proj_hpc_one_01' } as const;
export const defaultProjectPath = 'hpc_one/proj_hpc_one_01';
