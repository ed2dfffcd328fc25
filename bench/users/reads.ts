import { setTimeout as sleep } from 'node:timers/promises';
import { quantile } from '../statistics.ts';
import { buildRequest, type Connection, createConnectionPool, openConnection } from './connection.ts';

export interface Question {
  path: string;
  /** Undefined for a request without a token. */
  token?: string;
}

/** Requests to choose from at random. */
export interface QuestionGroup {
  /** Probability of the group, relative to the other ones. */
  weight: number;
  questions: readonly Question[];
}

export interface ReadLoad {
  url: string;
  groups: readonly QuestionGroup[];
  /** As many as possible on these connections, or a constant rate. */
  pace: { connections: number } | { perSecond: number };
  /** Duration; null for a few requests. */
  seconds: number | null;
}

export interface ReadResult {
  perSecond: number;
  /** At a constant rate, a latency counts from the time at which the request was due. */
  p99Ms: number;
  p999Ms: number;
}

/** Sends random requests. Throws if a response is not 200. */
export async function sendReads({ url, groups, pace, seconds }: ReadLoad): Promise<ReadResult> {
  const nextRequest = createRandomRequests(url, groups);
  const startedAt = performance.now();
  const endsAt = startedAt + (seconds ?? 0) * 1000;
  const latencies: number[] = [];

  async function read(connection: Pick<Connection, 'send'>, dueAt: number): Promise<void> {
    const status = await connection.send(nextRequest());
    if (status !== 200) throw new Error(`${url} responded with ${status}`);
    latencies.push(performance.now() - dueAt);
  }

  await ('connections' in pace ? readContinuously(pace.connections) : readAtRate(pace.perSecond));
  const elapsedSeconds = (performance.now() - startedAt) / 1000;
  latencies.sort((a, b) => a - b);
  return {
    perSecond: latencies.length / elapsedSeconds,
    p99Ms: quantile(latencies, 0.99),
    p999Ms: quantile(latencies, 0.999),
  };

  async function readContinuously(count: number): Promise<void> {
    const loop = async () => {
      const connection = openConnection(url);
      do await read(connection, performance.now());
      while (performance.now() < endsAt);
      connection.close();
    };
    await Promise.all(Array.from({ length: count }, loop));
  }

  async function readAtRate(perSecond: number): Promise<void> {
    const count = seconds === null ? 10 : Math.ceil(seconds * perSecond);
    const pool = createConnectionPool(url);
    const reads: Promise<void>[] = [];
    for (let n = 0; n < count; n++) {
      const dueAt = startedAt + (n * 1000) / perSecond;
      const waitMs = dueAt - performance.now();
      if (waitMs > 0) await sleep(waitMs);
      reads.push(read(pool, dueAt));
    }
    await Promise.all(reads);
    pool.close();
  }
}

/** Requests are built once, before they are sent. */
function createRandomRequests(url: string, groups: readonly QuestionGroup[]): () => Buffer {
  let totalWeight = 0;
  const built = groups.map(({ weight, questions }) => {
    totalWeight += weight;
    return { end: totalWeight, requests: questions.map((question) => buildRequest(url, question)) };
  });
  return () => {
    const position = Math.random() * totalWeight;
    const requests = built.find(({ end }) => position < end)?.requests ?? [];
    const request = requests[Math.floor(Math.random() * requests.length)];
    if (request === undefined) throw new Error('a group has no questions');
    return request;
  };
}
