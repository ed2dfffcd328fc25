import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Bench } from './benchmark.ts';
import { pin, serverProcessor } from './processes.ts';
import type { Answer } from './yardstick-processes/bare-http.ts';
import type { RawSubmissions } from './yardstick-processes/submissions.ts';

/** Starts one of the processes that show what is possible, on the processor that Bursar has while it is measured. */
async function start(bench: Bench, name: string): Promise<ChildProcess> {
  const child = fork(fileURLToPath(new URL(`./yardstick-processes/${name}.ts`, import.meta.url)));
  bench.defer(async () => {
    child.disconnect();
    await once(child, 'exit');
  });
  pin(child.pid, serverProcessor);
  return child;
}

async function ask<T>(child: ChildProcess, question: object): Promise<T> {
  child.send(question);
  const [answer] = (await once(child, 'message')) as [T];
  return answer;
}

/** Bare `node:http`, which gives the same answer to everything; its address. */
export async function bareHttp(bench: Bench, answer: Answer): Promise<string> {
  const { port } = await ask<{ port: number }>(await start(bench, 'bare-http'), answer);
  return `http://127.0.0.1:${port}`;
}

/** What Bursar answers to a request, so that a yardstick can answer the same; headers that Node adds itself left out. */
export async function answerOf(url: string, headers: Record<string, string>): Promise<Answer> {
  const response = await fetch(url, { headers });
  const body = Buffer.from(await response.arrayBuffer()).toString('base64');
  const own = [...response.headers].filter(([name]) => !['date', 'connection', 'keep-alive'].includes(name));
  return { status: response.status, headers: Object.fromEntries(own), body };
}

/** Submissions a second by hand: as many as can be made durable one after the other, or by so many at a time. */
export async function rawSubmissions(
  bench: Bench,
  where: RawSubmissions,
): Promise<(seconds: number | null) => Promise<number>> {
  const child = await start(bench, 'submissions');
  await ask(child, where);
  return async (seconds) => (await ask<{ rate: number }>(child, { seconds })).rate;
}
