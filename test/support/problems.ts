import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { advice } from './advice.ts';
import { type ApiResponse, createCaller, type Job, type Quota } from './api.ts';
import type { Problem } from './contract.ts';
import type { TestServer } from './server.ts';
import { until } from './until.ts';

/** A problem document with the additional fields of its code. */
export type ProblemBody = Problem & Record<string, unknown>;

interface Expected {
  status: number;
  code: string;
  /** Must match the detail. */
  message?: RegExp;
}

/** Asserts that the response is this problem, with all documented fields and without internal details. */
export function assertProblem(response: ApiResponse, { status, code, message }: Expected): ProblemBody {
  assert.equal(`${response.status} ${codeOf(response)}`, `${status} ${code}`, response.text);
  assert.equal(response.headers.get('content-type'), 'application/problem+json');
  assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
  const problem = response.body as ProblemBody;
  assert.equal(problem.status, status);
  assert.equal(problem.type, `/docs/errors#${code}`);
  assert.match(problem.title, /\w/);
  assert.equal(problem.request_id, response.headers.get('x-request-id'), 'the request id of the log');
  assert.doesNotMatch(response.text, /\bat [^"]*:\d+:\d+|node_modules|node:internal|\.ts\b|\/src\//, 'no stack trace');
  if (message !== undefined) assert.match(problem.detail, message);
  if (!advice.test(problem.detail)) withoutAdvice.add(`${code}: ${problem.detail}`);
  return problem;
}

/** Details received in this process that do not say what to do. */
const withoutAdvice = new Set<string>();

/** Asserts that all problems so far said what to do. Call it once at the end, so that a failure lists all of them. */
export function assertAllProblemsGaveAdvice(): void {
  assert.deepEqual([...withoutAdvice], [], 'details that do not say what to do');
}

function codeOf({ body }: ApiResponse): unknown {
  return typeof body === 'object' && body !== null && 'code' in body ? body.code : undefined;
}

/** Everything that a rejected request could change. */
interface ServerState {
  jobs: Record<string, number[]>;
  quotas: Record<string, Quota[]>;
  spool: string[];
  workspaces: string[];
}

export interface StateSnapshot {
  /** Asserts that nothing has changed. Waits first until files of interrupted requests are removed. */
  assertUnchanged(): Promise<void>;
  /** Takes a new snapshot when all jobs have ended. For tests that change the state on purpose. */
  update(): Promise<void>;
}

export async function takeStateSnapshot(server: TestServer, tokens: readonly string[]): Promise<StateSnapshot> {
  const callers = tokens.map((token) => createCaller(server.url, token));

  async function readState(): Promise<ServerState> {
    const state: ServerState = { jobs: {}, quotas: {}, spool: listFilesUnder(server, 'spool'), workspaces: [] };
    for (const [index, caller] of callers.entries()) {
      const { body: jobs } = await caller.get<Job[]>('/jobs/');
      state.jobs[index] = jobs.map((job) => job.id);
      state.quotas[index] = (await caller.get<Quota[]>('/quotas/')).body;
    }
    state.workspaces = listFilesUnder(server, 'workspaces');
    return state;
  }

  async function update(timeoutSeconds = 300) {
    const isIdle = async () => {
      const lists = await Promise.all(callers.map((caller) => caller.get<Job[]>('/jobs/')));
      const hasEnded = lists.every(({ body }) => body.every((job) => job.terminal_stage));
      return hasEnded && !listFilesUnder(server, 'spool').some((file) => file.endsWith('.zip')) ? true : undefined;
    };
    await until('every job has ended', isIdle, timeoutSeconds);
    before = await readState();
  }

  let before = await readState();
  return {
    assertUnchanged: async () => {
      const isCleanedUp = () => {
        const files = [listFilesUnder(server, 'spool'), listFilesUnder(server, 'workspaces')];
        return String(files) === String([before.spool, before.workspaces]) ? true : undefined;
      };
      const cleanedUp = await until('files are removed', isCleanedUp).catch(() => false);
      const [current, expected] = [await readState(), before];
      // After a failure, later tests start from a new snapshot, so that only this test fails.
      if (!cleanedUp || JSON.stringify(current) !== JSON.stringify(expected)) {
        await update(20).catch(async () => {
          before = await readState();
        });
      }
      assert.deepEqual(current, expected, 'the state has not changed');
    },
    update: () => update(),
  };
}

/** Lists the files under a folder of the data folder, by path. */
export function listFilesUnder({ data }: { data: string }, folder: string): string[] {
  const root = join(data, folder);
  return listFiles(root)
    .map((path) => path.slice(root.length + 1))
    .sort();
}

/** A folder that the server removes or renames meanwhile has no files. */
function listFiles(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? listFiles(path) : [path];
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
