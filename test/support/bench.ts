import { enrolUser } from '../../src/services/identity/enrolment.ts';
import { issueToken } from '../../src/services/identity/tokens.ts';
import { type Caller, callerOf } from './api.ts';
import { bursar, type CommandOutcome } from './command-line.ts';
import { type Contract, contractOf } from './contract.ts';
import { databaseEnvironment, queryBooks, withDatabase } from './database.ts';
import { startServer, type TestServer } from './server.ts';
import type { ShippedConfig as Config } from './shipped-config.ts';
import { shippedConfig } from './shipped-config.ts';

interface BenchOptions {
  /** What each member of each project gets when joining. */
  timeSeconds?: number;
  spaceKb?: number;
  /** Changes the configuration further. */
  adjust?(config: Config): void;
}

/** A server with small grants, its administrator, and as many users as a test wants. */
export interface Bench {
  /** The one that runs now. */
  server: TestServer;
  admin: Caller;
  /** A caller of that number, enrolled where unknown; with the same token each time. */
  user(id: string): Promise<Caller>;
  /** The same user, without every answer being held against the OpenAPI document: for what is no JSON. */
  plain(id: string): Promise<Caller>;
  /** The token of that user, for what a caller cannot send. */
  token(id: string): Promise<string>;
  /** Another administrator. */
  administrator(id: string): Promise<Caller>;
  /** What stands in the books, read behind the server's back. */
  rows<Row>(query: string, ...values: (string | number)[]): Promise<Row[]>;
  /** Does to the books what nothing but a database client can do. */
  tamper(statement: string, ...values: (string | number)[]): Promise<void>;
  bursar(...args: string[]): Promise<CommandOutcome>;
  /** Ends the server and starts another one on the same data folder. Callers from before do not reach it. */
  restart(how: 'SIGTERM' | 'SIGKILL', adjust?: (config: Config) => void): Promise<void>;
  dispose(): Promise<void>;
}

export async function openBench(options: BenchOptions = {}): Promise<Bench> {
  const config = benchConfig(options);
  let server = await startServer({ config });
  const { data, adminToken } = server;
  let contract: Contract = await contractOf(server);
  const tokens = new Map<string, Promise<string>>();
  let latest: Promise<unknown> = Promise.resolve();

  /** One after the other: two connections of one process would wait for each other. */
  function tokenOf(id: string, role: 'user' | 'admin'): Promise<string> {
    const token = tokens.get(id) ?? latest.then(() => newToken(data, id, role));
    tokens.set(id, token);
    latest = token;
    return token;
  }
  return {
    get server() {
      return server;
    },
    get admin() {
      return contract.as(adminToken);
    },
    user: async (id) => contract.as(await tokenOf(id, 'user')),
    plain: async (id) => callerOf(server.url, id === adminId ? adminToken : await tokenOf(id, 'user')),
    token: (id) => tokenOf(id, 'user'),
    administrator: async (id) => contract.as(await tokenOf(id, 'admin')),
    rows: (query, ...values) => queryBooks(data, query, values),
    tamper: async (statement, ...values) => {
      await queryBooks(data, statement, values);
    },
    bursar: (...args) =>
      bursar(args, { BURSAR_DATA: data, BURSAR_CONFIG: `${data}.yaml`, ...databaseEnvironment(data) }),
    restart: async (how, adjust) => {
      await (how === 'SIGTERM' ? server.stop() : server.kill());
      adjust?.(config);
      server = await startServer({ data, config });
      contract = await contractOf(server);
    },
    dispose: () => server.dispose(),
  };
}

/** Makes a stubborn job a matter of a second more than its limit. */
export function shortGrace(config: Config): void {
  for (const { engine } of Object.values(config.systems)) engine.killGraceSeconds = 1;
}

/** The administrator of a fresh server. */
export const adminId = '300001';

function benchConfig({ timeSeconds = 100_000, spaceKb = 100_000, adjust }: BenchOptions): Config {
  const config = shippedConfig();
  for (const system of Object.values(config.systems)) {
    for (const project of system.projects) project.grant = { timeSeconds, spaceKb };
  }
  adjust?.(config);
  return config;
}

/** As `bursar token create` makes one, without a process for it. */
async function newToken(data: string, userId: string, role: 'user' | 'admin'): Promise<string> {
  return await withDatabase(data, async (db) => {
    await enrolUser(db, userId, role, Date.now());
    return await issueToken(db, { userId, name: '', admin: role === 'admin', expiresAt: null }, Date.now());
  });
}

/** The project that most tests are about, and where it is. */
export const place = { hpc: 'hpc_one', project: 'proj_hpc_one_01' } as const;
export const home = 'hpc_one/proj_hpc_one_01';
