import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Bench } from './benchmark.ts';
import { pinToCpu, serverCpu } from './processes.ts';
import type { CannedResponse } from './yardstick-processes/bare-http.ts';
import type { RawSubmissionOptions } from './yardstick-processes/submissions.ts';

/** Starts one of the processes that show what is possible, on the processor that Bursar has while it is measured. */
async function startYardstick(bench: Bench, name: string): Promise<ChildProcess> {
  const child = fork(fileURLToPath(new URL(`./yardstick-processes/${name}.ts`, import.meta.url)));
  bench.defer(async () => {
    child.disconnect();
    await once(child, 'exit');
  });
  pinToCpu(child.pid, serverCpu);
  return child;
}

async function request<T>(child: ChildProcess, question: object): Promise<T> {
  child.send(question);
  const [answer] = (await once(child, 'message')) as [T];
  return answer;
}

/** Bare `node:http`, which gives the same answer to everything; its address. */
export async function startBareHttp(bench: Bench, answer: CannedResponse): Promise<string> {
  const { port } = await request<{ port: number }>(await startYardstick(bench, 'bare-http'), answer);
  return `http://127.0.0.1:${port}`;
}

/** What Bursar answers to a request, so that a yardstick can answer the same; headers that Node adds itself left out. */
export async function captureResponse(url: string, headers: Record<string, string>): Promise<CannedResponse> {
  const response = await fetch(url, { headers });
  const body = Buffer.from(await response.arrayBuffer()).toString('base64');
  const own = [...response.headers].filter(([name]) => !['date', 'connection', 'keep-alive'].includes(name));
  return { status: response.status, headers: Object.fromEntries(own), body };
}

/** Submissions a second by hand: as many as can be made durable one after the other, or by so many at a time. */
export async function startRawSubmissions(
  bench: Bench,
  where: RawSubmissionOptions,
): Promise<(seconds: number | null) => Promise<number>> {
  const child = await startYardstick(bench, 'submissions');
  await request(child, where);
  return async (seconds) => (await request<{ rate: number }>(child, { seconds })).rate;
}
