import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { CannedResponse, FixedResponse } from './baseline-processes/bare-http.ts';
import type { RawSubmissionOptions } from './baseline-processes/submissions.ts';
import type { Bench, RowDescription } from './benchmark.ts';
import type { Load } from './load.ts';
import { pinToCpu, serverCpu } from './processes.ts';

/** Starts a baseline process on the CPU on which Bursar is measured. */
async function startBaseline(bench: Bench, name: string): Promise<ChildProcess> {
  const child = fork(fileURLToPath(new URL(`./baseline-processes/${name}.ts`, import.meta.url)));
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

/** Starts a bare `node:http` server that sends fixed responses; returns its URL. */
export async function startBareHttp(bench: Bench, response: CannedResponse): Promise<string> {
  const { port } = await request<{ port: number }>(await startBaseline(bench, 'bare-http'), response);
  return `http://127.0.0.1:${port}`;
}

const automaticHeaders = ['date', 'connection', 'keep-alive', 'transfer-encoding'];

/** Captures a response, without the headers that Node adds itself. */
export async function captureResponse(url: string, headers: Record<string, string>): Promise<FixedResponse> {
  const response = await fetch(url, { headers });
  const body = Buffer.from(await response.arrayBuffer()).toString('base64');
  const captured = [...response.headers].filter(([name]) => !automaticHeaders.includes(name));
  return { status: response.status, headers: Object.fromEntries(captured), body };
}

/** Compares Bursar with a bare server that sends the same bytes. */
export async function compareWithBareHttp(
  bench: Bench,
  bursarUrl: string,
  load: Pick<Load, 'paths' | 'headers' | 'status' | 'change'>,
  row: RowDescription,
): Promise<void> {
  const bareUrl = await startBareHttp(bench, await captureResponse(`${bursarUrl}${load.paths[0]}`, load.headers));
  const rate = (url: string) => () =>
    bench.loadGenerator.rate({ ...load, url, connections: 16, seconds: bench.size.seconds });
  await bench.compare({ ...row, unit: 'requests/s', ours: rate(bursarUrl), theirs: rate(bareUrl) });
}

/** Starts a process that inserts the rows of submissions directly. The returned function returns submissions per second. */
export async function startRawSubmissions(
  bench: Bench,
  options: RawSubmissionOptions,
): Promise<(seconds: number | null) => Promise<number>> {
  const child = await startBaseline(bench, 'submissions');
  await request(child, options);
  return async (seconds) => (await request<{ rate: number }>(child, { seconds })).rate;
}

/** Starts a process that sums up the ledger entries of a SQLite file. The returned function returns the seconds it takes. */
export async function startGroupedPass(bench: Bench, file: string): Promise<() => Promise<number>> {
  const child = await startBaseline(bench, 'grouped-pass');
  await request(child, { file });
  return async () => (await request<{ seconds: number }>(child, {})).seconds;
}
