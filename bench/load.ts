import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { loadCpu, pinToCpu } from './processes.ts';

/** Requests to be sent, by so many connections, each with one request under way. */
export interface Load {
  url: string;
  /** Requested in turn. */
  paths: readonly string[];
  method?: 'GET' | 'POST';
  headers: Record<string, string>;
  bodyFile?: string;
  connections: number;
  /** For so long; null for two requests a connection. */
  seconds: number | null;
  /** Every answer must have it. */
  status: number;
  /** Changes a job of the caller before each request. */
  change?: JobChanges;
}

export interface JobChanges {
  /** The books. */
  database: string;
  /** They take turns, and are more than there are connections: nobody reads twice without a change in between. */
  callers: readonly { token: string; owner: string; job: number; json: readonly [string, string] }[];
}

export interface LoadResult {
  responses: number;
  seconds: number;
}

export interface LoadGenerator {
  /** Answers a second. Throws when one of them is not as it should be. */
  rate(load: Load): Promise<number>;
  close(): Promise<void>;
}

const program = fileURLToPath(new URL('./load-process.ts', import.meta.url));

/** Sends its requests from a process of its own, which lives on, so that it is warm after the first time. */
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
