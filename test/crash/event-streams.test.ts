import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { toEventJson } from '../../src/contract/event.ts';
import { listEventsAfter } from '../../src/store/events/events.ts';
import { callerOf, type Job } from '../support/api.ts';
import { withDatabase } from '../support/database.ts';
import { openEventStream } from '../support/event-stream.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';

const drops = 200;
/** After these the server is killed, and another one started on the same books. */
const kills = new Set([31, 77, 123, 169]);

describe(`a listener whose connection drops ${drops} times, and whose server is killed ${kills.size} times`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-events-'));
  const data = join(folder, 'data');
  /** The JSON of every event as it arrived, in the order in which it did. */
  const streamed: string[] = [];
  const polled: string[] = [];
  let stored: string[] = [];
  let server: ServerProcess;
  let token: string;
  let listening = true;
  let jobs: Job[] = [];

  before(async () => {
    server = await spawnServer({ data });
    token = server.userToken;
    const submitting = submitMeanwhile();
    const polling = pollMeanwhile();
    for (let drop = 1; drop <= drops; drop++) {
      await listenForAMoment();
      if (!kills.has(drop)) continue;
      await server.kill();
      server = await spawnServer({ data });
    }
    listening = false;
    await submitting;
    const me = callerOf(server.url, token);
    jobs = (await me.get<Job[]>('/jobs/')).body;
    for (const job of jobs) await me.finished(job);
    await polling;
    const { owner = '' } = jobs[0] ?? {};
    stored = await withDatabase(data, async (db) => (await listEventsAfter(db, owner, 0, 100_000)).map(toEventJson));
    await hearTheRest();
    assert.equal(await server.stop(), 0);
  });
  after(async () => {
    await server.dispose();
    rmSync(folder, { recursive: true, force: true });
  });

  async function submitMeanwhile(): Promise<void> {
    for (let n = 0; listening; n++) {
      const command = ['true', 'exit 3', 'sleep 0.1', 'echo hello'][n % 4];
      await callerOf(server.url, token)
        .submit('/jobs/hpc_one/', { command, title: `job ${n}`, runtime: '0.1' })
        .catch(() => null);
      await sleep(100);
    }
  }

  const idOf = (json: string | undefined) => (json === undefined ? 0 : Number(/^\{"id":(\d+)/.exec(json)?.[1]));

  /** Goes on where the last whole frame ended, and is cut off anywhere, even inside a frame. */
  async function listenForAMoment(): Promise<void> {
    const headers = { 'last-event-id': String(idOf(streamed.at(-1))) };
    const stream = await openEventStream(server.url, token, { headers }).catch(() => null);
    if (stream === null) return;
    await sleep(Math.random() ** 2 * 150);
    stream.disconnect();
    await stream.closed;
    streamed.push(...stream.frames().flatMap(({ data: json }) => (json === undefined ? [] : [json])));
  }

  /** The same by long polling, which is given up at random as well. */
  async function pollMeanwhile(): Promise<void> {
    while (listening) {
      const patience = AbortSignal.timeout(Math.ceil(20 + Math.random() * 200));
      await poll(patience).catch(() => sleep(10));
    }
  }

  async function poll(signal: AbortSignal | null): Promise<void> {
    const query = `?after=${idOf(polled.at(-1))}&wait=1&limit=7`;
    const headers = { authorization: `Bearer ${token}`, accept: 'application/json' };
    const response = await fetch(`${server.url}/events/${query}`, { headers, signal });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    const { events } = JSON.parse(text) as { events: { id: number }[] };
    // The bytes count: what is put together again from the parsed events would hide a difference.
    let rest = text.slice('{"events":['.length);
    for (const event of events) {
      const json = stored[event.id - 1] ?? wholeObject(rest);
      assert.ok(rest.startsWith(json));
      polled.push(json);
      rest = rest.slice(json.length + 1);
    }
  }

  async function hearTheRest(): Promise<void> {
    const headers = { 'last-event-id': String(idOf(streamed.at(-1))) };
    const stream = await openEventStream(server.url, token, { headers });
    await stream.waitForEvents(stored.length - streamed.length);
    streamed.push(...stream.frames().flatMap(({ data: json }) => (json === undefined ? [] : [json])));
    stream.disconnect();
    while (polled.length < stored.length) await poll(null);
  }

  test('there was something to tell', () => {
    assert.ok(jobs.length > 20, `${jobs.length} jobs`);
    // Accepted, queued, running, ended; one that is over before anybody looks was never seen running.
    assert.ok(stored.length >= 3 * jobs.length, `${stored.length} events of ${jobs.length} jobs`);
  });

  for (const [way, heard] of [
    ['the stream', streamed],
    ['long polling', polled],
  ] as const) {
    test(`${way} told every event that is in the books: none is missing, none came twice, all in their order`, () => {
      assert.deepEqual(
        heard.map(idOf),
        stored.map((_json, index) => index + 1),
      );
      assert.deepEqual(heard, stored);
    });
  }

  test('every job that there is was told from its acceptance to its end', () => {
    for (const job of jobs) {
      const told = streamed.filter((json) => json.includes(`"job_id":"${job.job_id}","stage"`));
      const types = told.map((json) => /"type":"([\w.]+)"/.exec(json)?.[1]);
      assert.deepEqual([types[0], types.at(-1)], ['job.accepted', 'job.ended'], types.join(' '));
      assert.equal(new Set(types).size, types.length);
    }
  });
});

/** The text of the object that a text begins with. */
function wholeObject(text: string): string {
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (quoted && character === '\\') at++;
    else if (character === '"') quoted = !quoted;
    else if (!quoted && character === '{') depth++;
    else if (!quoted && character === '}' && --depth === 0) return text.slice(0, at + 1);
  }
  throw new Error('no whole object');
}
