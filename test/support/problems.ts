import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { advice } from './advice.ts';
import { type ApiResponse, createCaller, type Job, type Quota } from './api.ts';
import type { Problem } from './contract.ts';
import type { TestServer } from './server.ts';
import { until } from './until.ts';

/** A problem document, with whatever facts its code brings. */
export type ProblemBody = Problem & Record<string, unknown>;

interface Expected {
  status: number;
  code: string;
  /** What the detail has to say about this very case. */
  message?: RegExp;
}

/** The answer is the documented refusal: stable code, problem details, advice, and nothing of our insides. */
export function assertProblem(answer: ApiResponse, { status, code, message: says }: Expected): ProblemBody {
  assert.equal(`${answer.status} ${codeOf(answer)}`, `${status} ${code}`, answer.text);
  assert.equal(answer.headers.get('content-type'), 'application/problem+json');
  const problem = answer.body as ProblemBody;
  assert.equal(problem.status, status);
  assert.equal(problem.type, `/docs/errors#${code}`);
  assert.match(problem.title, /\w/);
  assert.equal(problem.request_id, answer.headers.get('x-request-id'), 'the request can be found in the logs');
  assert.doesNotMatch(answer.text, /\bat [^"]*:\d+:\d+|node_modules|node:internal|\.ts\b|\/src\//, 'no stack trace');
  if (says !== undefined) assert.match(problem.detail, says);
  if (!advice.test(problem.detail)) withoutAdvice.add(`${code}: ${problem.detail}`);
  return problem;
}

/** Details seen so far in this process that say what is wrong and not what to do. */
const withoutAdvice = new Set<string>();

/** Every refusal so far has told its reader what to do. Asked once at the end, so that all are listed at once. */
export function assertAllProblemsGaveAdvice(): void {
  assert.deepEqual([...withoutAdvice], [], 'details that do not say what to do');
}

function codeOf({ body }: ApiResponse): unknown {
  return typeof body === 'object' && body !== null && 'code' in body ? body.code : undefined;
}

/** Everything that a refused request could have left behind. */
interface ServerState {
  jobs: Record<string, number[]>;
  quotas: Record<string, Quota[]>;
  spool: string[];
  workspaces: string[];
}

export interface StateSnapshot {
  /** What there is now is what there was; waits for files of requests that broke off to be swept away. */
  assertUnchanged(): Promise<void>;
  /** Takes what there is as the new normal, once every job has ended. For tests that are meant to leave something. */
  update(): Promise<void>;
}

export async function takeStateSnapshot(server: TestServer, tokens: readonly string[]): Promise<StateSnapshot> {
  const callers = tokens.map((token) => createCaller(server.url, token));

  async function look(): Promise<ServerState> {
    const traces: ServerState = { jobs: {}, quotas: {}, spool: listFilesUnder(server, 'spool'), workspaces: [] };
    for (const [index, caller] of callers.entries()) {
      const { body: jobs } = await caller.get<Job[]>('/jobs/');
      traces.jobs[index] = jobs.map((job) => job.id);
      traces.quotas[index] = (await caller.get<Quota[]>('/quotas/')).body;
    }
    traces.workspaces = listFilesUnder(server, 'workspaces');
    return traces;
  }

  async function accept(patienceSeconds = 300) {
    const isQuiet = async () => {
      const lists = await Promise.all(callers.map((caller) => caller.get<Job[]>('/jobs/')));
      const hasEnded = lists.every(({ body }) => body.every((job) => job.terminal_stage));
      return hasEnded && !listFilesUnder(server, 'spool').some((file) => file.endsWith('.zip')) ? true : undefined;
    };
    await until('every job has ended', isQuiet, patienceSeconds);
    before = await look();
  }

  let before = await look();
  return {
    assertUnchanged: async () => {
      const isSwept = () => {
        const files = [listFilesUnder(server, 'spool'), listFilesUnder(server, 'workspaces')];
        return String(files) === String([before.spool, before.workspaces]) ? true : undefined;
      };
      const swept = await until('files are swept away', isSwept, 30).catch(() => false);
      const [now, then] = [await look(), before];
      // So that a test which leaves something behind is the only one that fails.
      if (!swept || JSON.stringify(now) !== JSON.stringify(then)) {
        await accept(20).catch(async () => {
          before = await look();
        });
      }
      assert.deepEqual(now, then, 'nothing is left behind');
    },
    update: () => accept(),
  };
}

/** The files under a folder of the data folder, by path. */
export function listFilesUnder({ data }: { data: string }, folder: string): string[] {
  const root = join(data, folder);
  if (!existsSync(root)) return [];
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .sort();
}
