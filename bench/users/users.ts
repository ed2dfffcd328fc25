import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Bench } from '../benchmark.ts';
import { loadCpu, pinToCpu } from '../processes.ts';
import type { Background, DownloadLoad, ListenLoad, ListenResult, SubmitLoad } from './background.ts';
import type { ReadLoad, ReadResult } from './reads.ts';

type Command =
  | { kind: 'reads'; load: ReadLoad }
  | { kind: 'submissions'; load: SubmitLoad }
  | { kind: 'downloads'; load: DownloadLoad }
  | { kind: 'listeners'; load: ListenLoad }
  | { kind: 'stop'; started: number };

export type UsersMessage = Command & { id: number };

export interface UsersReply {
  id: number;
  result?: unknown;
  error?: string;
}

/** Users in a process of their own, on the CPU of the load generator. Everything can run at the same time. */
export interface Users {
  read(load: ReadLoad): Promise<ReadResult>;
  submit(load: SubmitLoad): Promise<Background<number>>;
  download(load: DownloadLoad): Promise<Background<number>>;
  listen(load: ListenLoad): Promise<Background<ListenResult>>;
}

const program = fileURLToPath(new URL('./users-process.ts', import.meta.url));

export function startUsers(bench: Bench): Users {
  const child = fork(program);
  pinToCpu(child.pid, loadCpu);
  bench.defer(async () => {
    if (child.exitCode !== null) return;
    child.disconnect();
    await once(child, 'exit');
  });
  const waiting = new Map<number, { resolve(result: unknown): void; reject(error: Error): void }>();
  let lastId = 0;
  child.on('message', ({ id, result, error }: UsersReply) => {
    const caller = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) caller?.resolve(result);
    else caller?.reject(new Error(error));
  });
  child.once('exit', (code) => {
    for (const { reject } of waiting.values()) reject(new Error(`the process of the users ended with ${code}`));
  });

  function call<Result>(command: Command): { id: number; result: Promise<Result> } {
    const id = ++lastId;
    const result = new Promise<unknown>((resolve, reject) => waiting.set(id, { resolve, reject })) as Promise<Result>;
    child.send({ ...command, id });
    return { id, result };
  }

  async function start<Result>(command: Command): Promise<Background<Result>> {
    const { id, result } = call(command);
    await result;
    return { stop: () => call<Result>({ kind: 'stop', started: id }).result };
  }

  return {
    read: (load) => call<ReadResult>({ kind: 'reads', load }).result,
    submit: (load) => start({ kind: 'submissions', load }),
    download: (load) => start({ kind: 'downloads', load }),
    listen: (load) => start({ kind: 'listeners', load }),
  };
}
