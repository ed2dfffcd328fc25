import { readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { download } from '../download.ts';
import { quantile } from '../statistics.ts';
import { buildRequest, createConnectionPool } from './connection.ts';

/** Work that continues until it is stopped. */
export interface Background<Result> {
  stop(): Promise<Result>;
}

export interface SubmitLoad {
  url: string;
  tokens: readonly string[];
  perSecond: number;
  path: string;
  headers: Record<string, string>;
  zipFile: string;
}

/** Submits jobs at a constant rate, each by a random user. `stop` returns their number. */
export function submitJobs({ url, tokens, perSecond, path, headers, zipFile }: SubmitLoad): Background<number> {
  const body = readFileSync(zipFile);
  const pool = createConnectionPool(url);
  const submissions: Promise<void>[] = [];

  async function submit(): Promise<void> {
    const token = tokens[Math.floor(Math.random() * tokens.length)] ?? '';
    const status = await pool.send(buildRequest(url, { method: 'POST', path, token, headers, body }));
    if (status !== 201) throw new Error(`a submission got ${status}`);
  }

  const timer = setInterval(() => submissions.push(submit()), 1000 / perSecond);
  submissions.push(submit());
  return {
    async stop() {
      clearInterval(timer);
      await Promise.all(submissions);
      pool.close();
      return submissions.length;
    },
  };
}

export interface DownloadLoad {
  url: string;
  headers: Record<string, string>;
  concurrency: number;
}

/** Downloads a response again and again. `stop` waits for the downloads in progress, and returns the downloads a second. */
export function repeatDownload({ url, headers, concurrency }: DownloadLoad): Background<number> {
  const startedAt = performance.now();
  let isStopped = false;
  let count = 0;
  const loop = async () => {
    do {
      await download(url, headers);
      count++;
    } while (!isStopped);
  };
  const loops = Promise.all(Array.from({ length: concurrency }, loop));
  return {
    async stop() {
      isStopped = true;
      await loops;
      return (count * 1000) / (performance.now() - startedAt);
    },
  };
}

export interface ListenLoad {
  url: string;
  tokens: readonly string[];
}

export interface ListenResult {
  events: number;
  /** Ends of jobs that were received. */
  ends: number;
  /** Numbers that were left out: the events of a user are numbered without gaps. */
  missing: number;
  /** From the time that an event has, to its arrival. */
  delayP99Ms: number;
}

/** Opens an event stream for each token. */
export async function listenToEvents({ url, tokens }: ListenLoad): Promise<Background<ListenResult>> {
  const delays: number[] = [];
  let [ends, missing] = [0, 0];

  async function listen(token: string): Promise<() => void> {
    const headers = { authorization: `Bearer ${token}`, accept: 'text/event-stream' };
    const outgoing = request(`${url}/events/?after=latest`, { agent: false, headers });
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.once('response', resolve).once('error', reject).end();
    });
    if (response.statusCode !== 200) throw new Error(`an event stream got ${response.statusCode}`);
    let text = '';
    let lastId: number | undefined;
    response.setEncoding('utf8').on('data', (chunk: string) => {
      const frames = (text + chunk).split('\n\n');
      text = frames.pop() ?? '';
      for (const frame of frames) {
        const [, data] = /^data: (.*)$/m.exec(frame) ?? [];
        if (data === undefined) continue;
        const { id, type, at } = JSON.parse(data) as { id: number; type: string; at: string };
        delays.push(Date.now() - Date.parse(at));
        if (type === 'job.ended') ends++;
        if (lastId !== undefined) missing += id - lastId - 1;
        lastId = id;
      }
    });
    for (const stream of [outgoing, response]) stream.on('error', () => undefined);
    return () => outgoing.destroy();
  }

  const disconnects: (() => void)[] = [];
  const concurrency = 50;
  for (let from = 0; from < tokens.length; from += concurrency)
    disconnects.push(...(await Promise.all(tokens.slice(from, from + concurrency).map(listen))));
  return {
    async stop() {
      for (const disconnect of disconnects) disconnect();
      delays.sort((a, b) => a - b);
      return { events: delays.length, ends, missing, delayP99Ms: quantile(delays, 0.99) };
    },
  };
}
