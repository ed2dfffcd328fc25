import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Bench } from './benchmark.ts';
import { pinToCpu, serverCpu } from './processes.ts';
import type { CannedResponse } from './yardstick-processes/bare-http.ts';
import type { RawSubmissionOptions } from './yardstick-processes/submissions.ts';

/** Starts a yardstick process on the CPU on which Bursar is measured. */
async function startYardstick(bench: Bench, name: string): Promise<ChildProcess> {
  const child = fork(fileURLToPath(new URL(`./yardstick-processes/${name}.ts`, import.meta.url)));
  bench.defer(async () => {
    child.disconnect();
    await once(child, 'exit');
  });
  pinToCpu(child.pid, serverCpu);
  return child;
}

async function request<T>(child: ChildProcess, message: object): Promise<T> {
  child.send(message);
  const [reply] = (await once(child, 'message')) as [T];
  return reply;
}

/** Starts a bare `node:http` server that sends the same response to every request; returns its URL. */
export async function startBareHttp(bench: Bench, response: CannedResponse): Promise<string> {
  const { port } = await request<{ port: number }>(await startYardstick(bench, 'bare-http'), response);
  return `http://127.0.0.1:${port}`;
}

/** Captures Bursar's response, so that a yardstick can send the same, without the headers that Node adds itself. */
export async function captureResponse(url: string, headers: Record<string, string>): Promise<CannedResponse> {
  const response = await fetch(url, { headers });
  const body = Buffer.from(await response.arrayBuffer()).toString('base64');
  const captured = [...response.headers].filter(([name]) => !['date', 'connection', 'keep-alive'].includes(name));
  return { status: response.status, headers: Object.fromEntries(captured), body };
}

/** Starts a process that inserts the rows of submissions directly; the returned function measures its rate a second. */
export async function startRawSubmissions(
  bench: Bench,
  options: RawSubmissionOptions,
): Promise<(seconds: number | null) => Promise<number>> {
  const child = await startYardstick(bench, 'submissions');
  await request(child, options);
  return async (seconds) => (await request<{ rate: number }>(child, { seconds })).rate;
}
