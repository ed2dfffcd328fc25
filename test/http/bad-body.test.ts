import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { mostHeldBytes } from '../../src/files/incoming.ts';
import { hostileLimits, hostileZips, lyingZips, makeZip } from '../files/hostile-zips.ts';
import { type Answer, callerOf, type Job } from '../support/api.ts';
import { assertCleanLog } from '../support/logs.ts';
import { assertAllGaveAdvice, assertProblem, filesUnder, type TraceWatch, watchTraces } from '../support/refusals.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { shippedConfig } from '../support/shipped-config.ts';
import { until } from '../support/until.ts';
import { ask, bearer, type HeaderLine, headOf, openWire, type Wire } from '../support/wire.ts';

const maxBodyKb = 200;
const maxBytes = maxBodyKb * 1000;

let server: TestServer;
let traces: TraceWatch;
let zip: Buffer;
/** Half of it is more than is held in memory. */
let largeZip: Buffer;
before(async () => {
  largeZip = await makeZip({ 'run.sh': '#!/bin/sh\necho hello\n', 'data.bin': randomBytes(170_000) });
  zip = await makeZip({ 'run.sh': '#!/bin/sh\necho hello\n', 'data.bin': Buffer.alloc(1000, 7) });
  const { maxEntries, maxUnpackedBytes, maxRatio } = hostileLimits;
  const submissions = { maxBodyKb, maxEntries, maxUnpackedKb: maxUnpackedBytes / 1000, maxRatio };
  server = await startServer({ config: { ...shippedConfig(), submissions } });
  traces = await watchTraces(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(() => traces.assertUnchanged());

const path = '/jobs/hpc_one/';

/** The headers of a submission in which nothing but the body can be wrong. */
function headers(...more: HeaderLine[]): HeaderLine[] {
  return [
    bearer(server.userToken),
    ['content-disposition', 'attachment; filename=job.zip'],
    ['payload', '{"command": "true"}'],
    ...more,
  ];
}

const submit = (body: string | Uint8Array, ...more: HeaderLine[]) =>
  ask(server.url, { method: 'POST', path, headers: headers(...more), body });

/** Sends the beginning of a body, and waits until some is on the server's disk; what is held in memory leaves no trace. */
const sendHalf = (wire: Wire, head: Buffer, body: Uint8Array) => send(wire, head, body.subarray(0, body.length / 2));

async function send(wire: Wire, head: Buffer, beginning: Uint8Array) {
  const before = filesUnder(server, 'spool').length;
  wire.write(head, beginning);
  if (beginning.length <= mostHeldBytes) await sleep(200);
  else await until('it has arrived', () => (filesUnder(server, 'spool').length > before ? true : undefined));
}

function chunk(bytes: string | Uint8Array): Buffer {
  const data = Buffer.from(bytes);
  return Buffer.concat([Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from('\r\n')]);
}
const lastChunk = '0\r\n\r\n';

describe('a body that is no zip', () => {
  const cases: [string, () => string | Uint8Array][] = [
    ['text', () => 'hello'],
    ['JSON', () => '{"command": "true"}'],
    ['one byte', () => 'P'],
    ['the first four bytes of a zip', () => 'PK\x03\x04'],
    ['zeros', () => Buffer.alloc(10_000)],
    ['a tar file compressed by gzip', () => gzipSync(Buffer.alloc(10_240))],
    ['a zip compressed by gzip', () => gzipSync(zip)],
    ['a zip in base64', () => zip.toString('base64')],
    ['a zip that has become UTF-8', () => zip.toString('latin1').replaceAll('\x07', '\u00e9')],
    ['half a zip', () => zip.subarray(0, zip.length / 2)],
    ['a zip with a byte more', () => Buffer.concat([zip, Buffer.from('!')])],
    ['a zip without its first byte', () => zip.subarray(1)],
  ];
  for (const [name, body] of cases) {
    test(`${name} is refused`, async () => {
      assertProblem(await submit(body()), { status: 400, code: 'invalid_zip' });
    });
  }

  test('the type that a body claims to have makes no difference', async () => {
    for (const type of [
      'application/zip',
      'application/json',
      'text/plain',
      'multipart/mixed; boundary=x',
      ';;;',
      '',
    ]) {
      const answer = await submit('hello', ['content-type', type]);
      assertProblem(answer, { status: 400, code: 'invalid_zip', says: /not a zip/ });
    }
  });

  test('a body that claims to be compressed is not uncompressed', async () => {
    const answer = await submit(gzipSync(zip), ['content-encoding', 'gzip']);
    assertProblem(answer, { status: 400, code: 'invalid_zip', says: /not a zip/ });
  });
});

describe('a hostile zip', () => {
  for (const { name, bytes, says } of hostileZips) {
    test(`${name} is refused`, async () => {
      assertProblem(await submit(bytes), { status: 400, code: 'invalid_zip', says });
    });
  }

  for (const { name, bytes } of lyingZips) {
    test(`${name} fails once it is unpacked, costs nothing, and its files are gone`, async () => {
      const me = callerOf(server.url, server.userToken);
      const [quotas, files] = [(await me.get('/quotas/')).text, filesUnder(server, 'workspaces')];
      const { status, body } = await me.submit(path, { command: 'true' }, bytes);
      assert.equal(status, 201);
      const job = await me.finished(body);
      assert.deepEqual([job.stage, job.failed], ['FAILED', true]);
      await until('its zip is gone', () => (filesUnder(server, 'spool').length === 0 ? true : undefined));
      assert.deepEqual(filesUnder(server, 'workspaces'), files);
      assert.equal((await me.get('/quotas/')).text, quotas);
      await traces.accept();
    });
  }
});

describe('a body that is too large', () => {
  const large = Buffer.alloc(3_000_000, 1);
  const refusal = { status: 413, code: 'too_large', says: /200000 bytes.*smaller zip/ };

  test('by one byte', async () => {
    assertProblem(await submit(Buffer.alloc(maxBytes + 1)), refusal);
  });

  test('is just not', async () => {
    assertProblem(await submit(Buffer.alloc(maxBytes)), { status: 400, code: 'invalid_zip' });
  });

  test('by its Content-Length', async () => {
    const problem = assertProblem(await submit(large), refusal);
    assert.equal(problem.maxBytes, maxBytes);
  });

  test('by a Content-Length of terabytes, before they are sent', async () => {
    const wire = await openWire(server.url);
    wire.write(headOf({ method: 'POST', path, headers: headers(['content-length', '1000000000000000']) }));
    wire.write(large);
    const [answer] = await wire.answers(1);
    assert.ok(answer !== undefined);
    assertProblem(answer, refusal);
  });

  test('in chunks', async () => {
    const body = Buffer.concat([...Array<Buffer>(300).fill(chunk(Buffer.alloc(10_000))), Buffer.from(lastChunk)]);
    assertProblem(await submit(body, ['transfer-encoding', 'chunked']), refusal);
  });

  test('in one chunk that never ends', async () => {
    const wire = await openWire(server.url);
    wire.write(headOf({ method: 'POST', path, headers: headers(['transfer-encoding', 'chunked']) }));
    wire.write('fffffffff\r\n', large);
    const [answer] = await wire.answers(1);
    assert.ok(answer !== undefined);
    assertProblem(answer, refusal);
  });

  test('in a multipart form', async () => {
    const answer = await submit(form(['file', 'job.zip', large]), formType);
    assertProblem(answer, refusal);
  });

  test('and leaves the connection in order, or closed', async () => {
    const wire = await openWire(server.url);
    const length: HeaderLine = ['content-length', String(large.length)];
    wire.write(headOf({ method: 'POST', path, headers: headers(length) }), large);
    wire.write(headOf({ path: '/livez' }));
    const [refused, next] = await wire.answers(2);
    assert.equal(refused?.status, 413);
    if (next !== undefined) assert.equal(next.text, '{"status":"ok"}');
  });
});

describe('the refusal of a large body', () => {
  const large = Buffer.alloc(20_000_000);
  const length: HeaderLine = ['content-length', String(large.length)];
  const cases: [string, HeaderLine[], number][] = [
    ['for its token', [['authorization', 'Bearer wrong']], 401],
    ['for its headers', [['content-disposition', 'inline']], 400],
    ['for its size', [], 413],
  ];
  for (const [name, wrong, status] of cases) {
    for (const [kind, connection] of [
      ['a connection', 'keep-alive'],
      ['a connection that is to be closed', 'close'],
    ] as const) {
      test(`${name} reaches a caller who listens while sending, on ${kind}`, async () => {
        const wire = await openWire(server.url);
        wire.write(headWith(wrong, connection), large);
        const [answer] = await wire.answers(1);
        assert.equal(answer?.status, status);
      });

      test(`${name} reaches a caller who sends everything before listening, on ${kind}`, {
        timeout: 60_000,
      }, async () => {
        const wire = await openWire(server.url);
        await wire.write(headWith(wrong, connection), large);
        const [answer] = await wire.answers(1);
        assert.equal(answer?.status, status);
      });
    }
  }

  function headWith(wrong: HeaderLine[], connection: string) {
    const right = headers().filter(([header]) => wrong.every(([given]) => given !== header));
    return headOf({ method: 'POST', path, headers: [...right, ...wrong, length, ['connection', connection]] });
  }
});

const endings: [name: string, ending: 'destroy' | 'end', body: () => Buffer][] = [
  ['breaks off', 'destroy', () => zip],
  ['ends', 'end', () => zip],
  ['is large and breaks off', 'destroy', () => largeZip],
  ['is large and ends', 'end', () => largeZip],
];

describe('a body that is not as long as announced', () => {
  for (const [name, ending, body] of endings) {
    test(`${name} half-way`, async () => {
      const wire = await openWire(server.url);
      const length: HeaderLine = ['content-length', String(body().length)];
      await sendHalf(wire, headOf({ method: 'POST', path, headers: headers(length) }), body());
      wire[ending]();
      for (const answer of await wire.closed()) assertProblem(answer, { status: 400, code: codeIn(answer) });
    });

    test(`${name} half-way through a chunk`, async () => {
      const wire = await openWire(server.url);
      const chunked: HeaderLine = ['transfer-encoding', 'chunked'];
      await sendHalf(wire, headOf({ method: 'POST', path, headers: headers(chunked) }), chunk(body()));
      wire[ending]();
      for (const answer of await wire.closed()) assertProblem(answer, { status: 400, code: codeIn(answer) });
    });

    test(`${name} before its last chunk`, async () => {
      const wire = await openWire(server.url);
      const chunked: HeaderLine = ['transfer-encoding', 'chunked'];
      await send(wire, headOf({ method: 'POST', path, headers: headers(chunked) }), chunk(body()));
      wire[ending]();
      for (const answer of await wire.closed()) assertProblem(answer, { status: 400, code: codeIn(answer) });
    });
  }

  test('is longer: what is cut off is no zip, and the rest is no request', async () => {
    const wire = await openWire(server.url);
    const length: HeaderLine = ['content-length', String(zip.length - 30)];
    wire.write(headOf({ method: 'POST', path, headers: headers(length) }), zip);
    const [answer, ...more] = await wire.closed();
    assert.ok(answer !== undefined);
    assertProblem(answer, { status: 400, code: 'invalid_zip' });
    for (const next of more) assertProblem(next, { status: 400, code: 'bad_request' });
  });

  test('is longer by rubbish: the job is taken once, and the rubbish is no request', async () => {
    const wire = await openWire(server.url);
    const length: HeaderLine = ['content-length', String(zip.length)];
    wire.write(headOf({ method: 'POST', path, headers: headers(length) }), zip, 'and more\r\n\r\n');
    const [answer, ...more] = await wire.closed();
    assert.ok(answer !== undefined);
    assert.equal(answer.status, 201, answer.text);
    for (const next of more) assertProblem(next, { status: 400, code: 'bad_request' });
    const { body } = await callerOf(server.url, server.userToken).get<Job[]>('/jobs/');
    assert.equal(body.at(-1)?.id, (answer.body as Job).id);
    await traces.accept();
  });

  for (const length of ['-1', '1e3', '0x10', 'many', '5 5', '99999999999999999999999', '+5']) {
    test(`has the length ${length}`, async () => {
      const answer = await submit(zip, ['content-length', length]);
      assertProblem(answer, { status: 400, code: 'bad_request' });
    });
  }

  test('has two lengths', async () => {
    const answer = await submit(zip, ['content-length', String(zip.length)], ['content-length', '5']);
    assertProblem(answer, { status: 400, code: 'bad_request' });
  });

  test('has a length and chunks', async () => {
    const body = Buffer.concat([chunk(zip), Buffer.from(lastChunk)]);
    const answer = await submit(body, ['content-length', '5'], ['transfer-encoding', 'chunked']);
    assertProblem(answer, { status: 400, code: 'bad_request' });
  });
});

describe('broken chunks', () => {
  const cases: [string, () => string | Uint8Array][] = [
    ['a size that is no number', () => 'hello\r\nhello\r\n0\r\n\r\n'],
    ['a negative size', () => '-5\r\nhello\r\n0\r\n\r\n'],
    ['no size', () => '\r\nhello\r\n0\r\n\r\n'],
    ['a size that is too small', () => '3\r\nhello\r\n0\r\n\r\n'],
    ['a size beyond all numbers', () => `${'f'.repeat(20)}\r\nhello\r\n0\r\n\r\n`],
    ['no line end after a chunk', () => '5\r\nhello0\r\n\r\n'],
    ['a broken size after a good chunk', () => Buffer.concat([chunk(zip), Buffer.from('zz\r\n')])],
    ['a size with a prefix', () => '0x5\r\nhello\r\n0\r\n\r\n'],
    ['line feeds alone', () => '5\nhello\n0\n\n'],
  ];
  for (const [name, body] of cases) {
    test(`${name} is refused`, async () => {
      const answer = await submit(body(), ['transfer-encoding', 'chunked']);
      assertProblem(answer, { status: 400, code: codeIn(answer) });
      assert.match(codeIn(answer), /^(bad_request|invalid_body)$/);
    });
  }

  for (const coding of ['gzip', 'identity', 'chunked, gzip', 'chunked, chunked', 'xchunked']) {
    test(`the transfer coding ${coding} is refused`, async () => {
      const body = Buffer.concat([chunk(zip), Buffer.from(lastChunk)]);
      const answer = await submit(body, ['transfer-encoding', coding]);
      assert.ok([400, 501].includes(answer.status), answer.text);
      assertProblem(answer, { status: answer.status, code: codeIn(answer) });
    });
  }
});

const boundary = 'x-boundary-x';
const formType: HeaderLine = ['content-type', `multipart/form-data; boundary=${boundary}`];
type Part = [field: string, fileName: string | null, content: string | Uint8Array];

function form(...parts: Part[]): Buffer {
  return Buffer.concat([...parts.map(partOf), Buffer.from(`--${boundary}--\r\n`)]);
}

function partOf([field, fileName, content]: Part): Buffer {
  const name = fileName === null ? '' : `; filename="${fileName}"`;
  const head = `--${boundary}\r\ncontent-disposition: form-data; name="${field}"${name}\r\n`;
  const type = fileName === null ? '' : 'content-type: application/zip\r\n';
  return Buffer.concat([Buffer.from(`${head}${type}\r\n`), Buffer.from(content), Buffer.from('\r\n')]);
}

describe('a multipart form', () => {
  const cases: [string, () => string | Uint8Array, RegExp][] = [
    ['without a file', () => form(), /no file|broken/],
    ['with a field only', () => form(['title', null, 'x']), /field "title"/],
    ['with a field before the file', () => form(['title', null, 'x'], ['file', 'job.zip', zip]), /field "title"/],
    ['with a field after the file', () => form(['file', 'job.zip', zip], ['title', null, 'x']), /field "title"/],
    ['with two files', () => form(['file', 'job.zip', zip], ['file', 'job.zip', zip]), /more than one file/],
    ['with thirty files', () => form(...Array<Part>(30).fill(['file', 'job.zip', zip])), /more than one file/],
    ['with thirty fields', () => form(...Array<Part>(30).fill(['title', null, 'x'])), /field "title"/],
    ['with a field of 100 kB', () => form(['title', null, 'x'.repeat(100_000)]), /field "title"/],
    [
      'with another boundary',
      () => form(['file', 'job.zip', zip]).toString('latin1').replaceAll(boundary, 'y'),
      /form/,
    ],
    ['with a boundary that is cut short', () => form(['file', 'job.zip', zip]).subarray(5), /form/],
    ['that is cut off in its file', () => form(['file', 'job.zip', zip]).subarray(0, 200), /broken|cut off/],
    ['that is cut off in its headers', () => form(['file', 'job.zip', zip]).subarray(0, 50), /form/],
    ['that lacks its end', () => partOf(['file', 'job.zip', zip]), /broken|cut off/],
    ['that is the zip itself', () => zip, /form/],
    ['that is text', () => 'hello', /form/],
    ['that is empty', () => '', /form/],
    ['that is its end alone', () => `--${boundary}--\r\n`, /form/],
    ['with a part without headers', () => `--${boundary}\r\n\r\nhello\r\n--${boundary}--\r\n`, /form/],
    [
      'with a part of another disposition',
      () => `--${boundary}\r\ncontent-disposition: attachment; filename=a.zip\r\n\r\nhello\r\n--${boundary}--\r\n`,
      /form/,
    ],
    [
      'with part headers of 100 kB',
      () => `--${boundary}\r\nx: ${'y'.repeat(100_000)}\r\n\r\nhello\r\n--${boundary}--\r\n`,
      /form/,
    ],
    [
      'with ten thousand part headers',
      () => `--${boundary}\r\n${'x: y\r\n'.repeat(10_000)}\r\nhello\r\n--${boundary}--\r\n`,
      /form/,
    ],
  ];
  for (const [name, body, says] of cases) {
    test(`${name} is refused`, async () => {
      assertProblem(await submit(body(), formType), { status: 400, code: 'invalid_body', says });
    });
  }

  test('whose file is no zip is refused', async () => {
    const answer = await submit(form(['file', 'job.zip', 'hello']), formType);
    assertProblem(answer, { status: 400, code: 'invalid_zip', says: /not a zip/ });
  });

  for (const type of [
    'multipart/form-data',
    'multipart/form-data;',
    'multipart/form-data; boundary',
    'multipart/form-data; boundary=',
    'multipart/form-data; boundary=""',
    'Multipart/Form-Data; charset=utf-8',
  ]) {
    test(`of the type ${type} is refused`, async () => {
      const answer = await submit(form(['file', 'job.zip', zip]), ['content-type', type]);
      assertProblem(answer, { status: 400, code: 'invalid_body', says: /boundary|broken/ });
    });
  }

  test('with a boundary of 10 kB is refused', async () => {
    const type = `multipart/form-data; boundary=${'b'.repeat(10_000)}`;
    const answer = await submit(form(['file', 'job.zip', zip]), ['content-type', type]);
    assertProblem(answer, { status: 400, code: 'invalid_body', says: /form/ });
  });

  for (const [name, ending, body] of endings) {
    test(`that ${name} half-way is refused`, async () => {
      const bytes = form(['file', 'job.zip', body()]);
      const wire = await openWire(server.url);
      const more: HeaderLine[] = [formType, ['content-length', String(bytes.length)]];
      await sendHalf(wire, headOf({ method: 'POST', path, headers: headers(...more) }), bytes);
      wire[ending]();
      for (const answer of await wire.closed()) assertProblem(answer, { status: 400, code: codeIn(answer) });
    });
  }
});

describe('a body that is accepted', () => {
  const cases: [string, () => Promise<Answer>][] = [
    ['nothing at all', () => submit('')],
    ['an empty body with its length', () => submit('', ['content-length', '0'])],
    ['an empty body in chunks', () => submit(lastChunk, ['transfer-encoding', 'chunked'])],
    ['a zip', () => submit(zip)],
    [
      'a zip in chunks',
      () => submit(Buffer.concat([chunk(zip), Buffer.from(lastChunk)]), ['transfer-encoding', 'chunked']),
    ],
    ['a zip of another type', () => submit(zip, ['content-type', 'application/json'])],
    ['a zip as curl sends it', () => submit(zip, ['content-type', 'application/x-www-form-urlencoded'])],
    ['a zip in a multipart form', () => submit(form(['file', 'job.zip', zip]), formType)],
  ];
  for (const [name, send] of cases) {
    test(name, async () => {
      const answer = await send();
      assert.equal(answer.status, 201, answer.text);
      const job = await callerOf(server.url, server.userToken).finished(answer.body as Job);
      assert.equal(job.stage, 'SUCCESSFUL');
      await traces.accept();
      const files = filesUnder(server, `workspaces/${job.job_id}/files`);
      assert.deepEqual(files, /zip/.test(name) ? ['data.bin', 'run.sh'] : []);
    });
  }
});

function codeIn({ body }: Answer): string {
  return String((body as { code?: string } | undefined)?.code);
}

test('every one of these refusals says what to do', () => assertAllGaveAdvice());

test('the log is structured, names every request, and has no token', async () => {
  await assertCleanLog(server, [server.userToken]);
});
