import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { formatEvent, type ServerSentEvent, toLogEvents } from '../../../src/http/response/sse.ts';
import { parseSse } from '../../support/parse-sse.ts';

async function* splitIntoChunks(bytes: Buffer, cuts: readonly number[]) {
  const sorted = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((one, other) => one - other);
  let start = 0;
  for (const end of [...sorted, bytes.length]) {
    yield bytes.subarray(start, end);
    start = end;
  }
}

const eventsOf = async (bytes: Buffer, cuts: readonly number[] = [], from = 0, hasEnded = true) =>
  await Array.fromAsync(toLogEvents(splitIntoChunks(bytes.subarray(from), cuts), from, () => hasEnded));

const textOf = (events: readonly ServerSentEvent[]) =>
  events
    .filter(({ event }) => event === undefined)
    .map(({ data }) => JSON.parse(data).text)
    .join('');

describe('a log as server-sent events', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'ü', '日', '🙂', '\n', '\r', '\r\n', ' ', ':') });

  test('the text is complete, and no character or line is split, for any chunks', async () => {
    await fc.assert(
      fc.asyncProperty(text, fc.array(fc.nat(), { maxLength: 10 }), async (printed, cuts) => {
        const events = await eventsOf(Buffer.from(printed), cuts);
        assert.equal(textOf(events), printed);
        for (const { data, event } of events.slice(0, -2)) {
          if (event === undefined) assert.ok(JSON.parse(data).text.endsWith('\n'));
        }
        assert.equal(events.at(-1)?.event, 'end');
        assert.equal(events.at(-1)?.id, String(Buffer.byteLength(printed)));
      }),
    );
  });

  test('resuming from the id of any event continues with exactly the rest', async () => {
    await fc.assert(
      fc.asyncProperty(text, fc.array(fc.nat()), fc.nat(), async (printed, cuts, chosen) => {
        const bytes = Buffer.from(printed);
        const events = await eventsOf(bytes, cuts);
        const received = events.slice(0, chosen % (events.length + 1));
        const resumed = await eventsOf(bytes, cuts, Number(received.at(-1)?.id ?? 0));
        assert.equal(textOf(received) + textOf(resumed), printed);
      }),
    );
  });

  test('a parser that follows the standard reads the same data, for any line ends', async () => {
    await fc.assert(
      fc.asyncProperty(text, async (printed) => {
        const events = await eventsOf(Buffer.from(printed));
        assert.deepEqual(
          parseSse(events.map(formatEvent).join('')).map(({ data }) => data),
          events.map(({ data }) => data),
        );
      }),
    );
  });

  test('an incomplete line is held back while the job runs, and sent when it has ended', async () => {
    const printed = Buffer.from('whole\nnot who');
    assert.equal(textOf(await eventsOf(printed, [], 0, false)), 'whole\n');
    assert.equal(textOf(await eventsOf(printed)), 'whole\nnot who');
  });

  test('a line longer than an event is split between characters', async () => {
    for (const shift of ['', 'a', 'aa', 'aaa']) {
      const printed = shift + '🙂'.repeat(30_000);
      const events = await eventsOf(Buffer.from(printed));
      assert.ok(events.length > 3);
      assert.equal(textOf(events), printed);
    }
  });

  test('invalid UTF-8 does not affect later lines', async () => {
    const events = await eventsOf(Buffer.concat([Buffer.alloc(100_000, 0xbf), Buffer.from('\nafter\n')]));
    assert.ok(textOf(events).endsWith('\nafter\n'));
    assert.equal(events.at(-1)?.id, '100007');
  });
});
