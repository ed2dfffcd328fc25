import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { toEventJson } from '../../../src/contract/event.ts';
import { listEventsAfter } from '../../../src/store/events/events.ts';
import { createCaller, type Job } from '../../support/api.ts';
import { withDatabase } from '../../support/database.ts';
import { openEventStream } from '../../support/event-stream.ts';
import { isLongRun } from '../../support/long-run.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';

const disconnects = isLongRun ? 200 : 80;
/** After these disconnects the server is killed and restarted with the same data. */
const kills = new Set([31, 57]);

describe(`an event client that disconnects ${disconnects} times, while its server is killed ${kills.size} times`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-events-'));
  const data = join(folder, 'data');
  /** The JSON of the received events, in order of arrival. */
  const streamed: string[] = [];
  const polled: string[] = [];
  let stored: string[] = [];
  let server: ServerProcess;
  let token: string;
  let isListening = true;
  let jobs: Job[] = [];
  let accepted = 0;

  before(async () => {
    server = await spawnServer({ data });
    token = server.userToken;
    const submitting = submitJobs();
    const polling = pollEvents();
    // Until there are enough jobs: a busy machine may accept few of them meanwhile.
    for (let count = 1; count <= disconnects || accepted <= 10; count++) {
      await listenBriefly();
      if (!kills.has(count)) continue;
      await server.kill();
      server = await spawnServer({ data });
    }
    isListening = false;
    await submitting;
    const me = createCaller(server.url, token);
    jobs = (await me.get<Job[]>('/jobs/')).body;
    for (const job of jobs) await me.waitUntilFinished(job);
    await polling;
    const { owner = '' } = jobs[0] ?? {};
    stored = await withDatabase(data, async (db) => (await listEventsAfter(db, owner, 0, 100_000)).map(toEventJson));
    await receiveTheRest();
    assert.equal(await server.stop(), 0);
  });
  after(async () => {
    await server.dispose();
    rmSync(folder, { recursive: true, force: true });
  });

  async function submitJobs(): Promise<void> {
    for (let n = 0; isListening; n++) {
      const command = ['true', 'exit 3', 'sleep 0.1', 'echo hello'][n % 4];
      const response = await createCaller(server.url, token)
        .submit('/jobs/hpc_one/', { command, title: `job ${n}`, runtime: '0.1' })
        .catch(() => null);
      if (response?.status === 201) accepted++;
      await sleep(200);
    }
  }

  const parseEventId = (json: string | undefined) => (json === undefined ? 0 : Number(/^\{"id":(\d+)/.exec(json)?.[1]));

  /** Resumes after the last complete frame, and disconnects at a random time, even inside a frame. */
  async function listenBriefly(): Promise<void> {
    const headers = { 'last-event-id': String(parseEventId(streamed.at(-1))) };
    const stream = await openEventStream(server.url, token, { headers }).catch(() => null);
    if (stream === null) return;
    await sleep(Math.random() ** 2 * 150);
    stream.disconnect();
    await stream.closed;
    streamed.push(...stream.frames().flatMap(({ data: json }) => (json === undefined ? [] : [json])));
  }

  /** Long polling that is aborted at random times. */
  async function pollEvents(): Promise<void> {
    while (isListening) {
      const signal = AbortSignal.timeout(Math.ceil(20 + Math.random() * 200));
      await poll(signal).catch(() => sleep(10));
    }
  }

  async function poll(signal: AbortSignal | null): Promise<void> {
    const query = `?after=${parseEventId(polled.at(-1))}&wait=1&limit=7`;
    const headers = { authorization: `Bearer ${token}`, accept: 'application/json' };
    const response = await fetch(`${server.url}/events/${query}`, { headers, signal });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    const { events } = JSON.parse(text) as { events: { id: number }[] };
    // Compares the raw JSON text: serialising the parsed events again could hide a difference.
    let rest = text.slice('{"events":['.length);
    for (const event of events) {
      const json = stored[event.id - 1] ?? firstObject(rest);
      assert.ok(rest.startsWith(json));
      polled.push(json);
      rest = rest.slice(json.length + 1);
    }
  }

  async function receiveTheRest(): Promise<void> {
    const headers = { 'last-event-id': String(parseEventId(streamed.at(-1))) };
    const stream = await openEventStream(server.url, token, { headers });
    await stream.waitForEvents(stored.length - streamed.length);
    streamed.push(...stream.frames().flatMap(({ data: json }) => (json === undefined ? [] : [json])));
    stream.disconnect();
    while (polled.length < stored.length) await poll(null);
  }

  test('there were enough jobs and events', () => {
    assert.ok(jobs.length > 10, `${jobs.length} jobs`);
    // Accepted, queued, running, ended. A job that ends between two polls is never seen running, and one whose server was
    // killed perhaps never queued.
    assert.ok(stored.length >= 2 * jobs.length, `${stored.length} events of ${jobs.length} jobs`);
  });

  for (const [method, received] of [
    ['the stream', streamed],
    ['long polling', polled],
  ] as const) {
    test(`${method} delivered every stored event exactly once and in order`, () => {
      assert.deepEqual(
        received.map(parseEventId),
        stored.map((_json, index) => index + 1),
      );
      assert.deepEqual(received, stored);
    });
  }

  test('the events of every job begin with its acceptance and end with its end', () => {
    for (const job of jobs) {
      const ofJob = streamed.filter((json) => json.includes(`"job_id":"${job.job_id}","stage"`));
      const types = ofJob.map((json) => /"type":"([\w.]+)"/.exec(json)?.[1]);
      assert.deepEqual([types[0], types.at(-1)], ['job.accepted', 'job.ended'], types.join(' '));
      assert.equal(new Set(types).size, types.length);
    }
  });
});

/** Returns the JSON object at the start of a text. */
function firstObject(text: string): string {
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (inString && character === '\\') at++;
    else if (character === '"') inString = !inString;
    else if (!inString && character === '{') depth++;
    else if (!inString && character === '}' && --depth === 0) return text.slice(0, at + 1);
  }
  throw new Error('incomplete JSON object');
}
