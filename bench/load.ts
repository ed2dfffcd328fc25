import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { loadCpu, pinToCpu } from './processes.ts';

/** The requests to send. Each connection has one request in flight. */
export interface Load {
  url: string;
  /** Requested in round-robin order. */
  paths: readonly string[];
  method?: 'GET' | 'POST';
  headers: Record<string, string>;
  bodyFile?: string;
  connections: number;
  /** Duration; null for two requests a connection. */
  seconds: number | null;
  /** Required of every response. */
  status: number;
  /** Changes to make before each request. */
  change?: JobChanges;
}

export interface JobChanges {
  /** Path of the SQLite database. */
  database: string;
  /** Used in round-robin order: before each request, a job of the next caller changes. */
  callers: readonly { token: string; owner: string; job: number; json: readonly [string, string] }[];
}

export interface LoadResult {
  responses: number;
  seconds: number;
}

export interface LoadGenerator {
  /** Sends the load and returns the responses per second. Throws if a response has another status. */
  rate(load: Load): Promise<number>;
  close(): Promise<void>;
}

const program = fileURLToPath(new URL('./load-process.ts', import.meta.url));

/** Starts the process that sends the requests. It is kept for all benchmarks, so that its code is compiled once. */
export async function startLoadGenerator(): Promise<LoadGenerator> {
  const child = fork(program);
  pinToCpu(child.pid, loadCpu);
  return {
    async rate(load) {
      child.send(load);
      const [result] = (await once(child, 'message')) as [LoadResult | { error: string }];
      if ('error' in result) throw new Error(result.error);
      return result.responses / result.seconds;
    },
    async close() {
      child.disconnect();
      await once(child, 'exit');
    },
  };
}
