import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { createCertificateAuthority } from '../../support/certificates.ts';
import { openEventStream } from '../../support/event-stream.ts';
import { jobPath, releaseJob, waitForGoScript } from '../../support/jobs.ts';
import { freePorts } from '../../support/ports.ts';
import { type ReverseProxy, startCaddy, startNginx } from '../../support/reverse-proxy.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

const folder = mkdtempSync(join(tmpdir(), 'bursar-proxy-'));
const systemAuthorities = getCACertificates('default');
const publicUrl = 'https://bursar.example.org';
let server: ServerProcess;
let certificate: { key: string; cert: string };
let upstream: string;
let start: () => Promise<ServerProcess>;

before(async () => {
  const authority = await createCertificateAuthority(join(folder, 'authority'));
  setDefaultCACertificates([...systemAuthorities, readFileSync(authority.certificateFile, 'utf8')]);
  certificate = await authority.issue('IP:127.0.0.1');
  const [port] = await freePorts(1);
  upstream = `127.0.0.1:${port}`;
  const config = {
    ...shippedConfig(),
    server: { trustProxy: ['127.0.0.1'], publicUrl },
    submissions: { maxBodyKb: 25_000 },
  };
  start = () =>
    spawnServer({ config, env: { BURSAR_PORT: String(port) }, ...(server === undefined ? {} : { data: server.data }) });
  server = await start();
});
after(async () => {
  setDefaultCACertificates(systemAuthorities);
  await server.dispose();
  rmSync(folder, { recursive: true, force: true });
});

for (const [name, startProxy] of [
  ['nginx', startNginx],
  ['Caddy', startCaddy],
] as const) {
  describe(`${name} with the shipped file`, () => {
    let proxy: ReverseProxy;
    let me: Caller;
    let token: string;

    before(async () => {
      proxy = await startProxy({ folder: join(folder, name), certificate, upstreams: [upstream] });
      token = await server.token('301330');
      me = createCaller(proxy.url, token);
    });
    after(() => proxy.close());

    /** Sends the head of a submission. The caller sends the body. */
    function beginSubmission(headers: Record<string, string | number>) {
      const payload = JSON.stringify({ command: 'sbatch run.sh', title: name, runtime: 0.1 });
      const submission = request(`${proxy.url}/jobs/hpc_one/`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          'content-disposition': 'attachment; filename=job.zip',
          payload,
          ...headers,
        },
      });
      const response = once(submission, 'response') as Promise<[IncomingMessage]>;
      response.catch(() => undefined);
      return { submission, response };
    }

    /** The number of uploads that Bursar is receiving. */
    const incoming = () => readdirSync(join(server.data, 'spool', 'incoming')).length;

    test('passes on an upload while it arrives, and a job that runs', async () => {
      const zip = await createZip({ 'run.sh': '#!/bin/bash\nwc -c < data\n', data: randomBytes(20_000_000) });
      const { submission, response } = beginSubmission({ 'content-length': zip.length, expect: '100-continue' });
      submission.flushHeaders();
      await once(submission, 'continue');
      submission.write(zip.subarray(0, 10_000_000));
      await until('Bursar receives the upload before its end', () => incoming() > 0 || undefined);
      submission.end(zip.subarray(10_000_000));
      const [answer] = await response;
      const body = await text(answer);
      assert.equal(answer.statusCode, 201, body);
      const job = await me.waitUntilFinished(JSON.parse(body) as Job);
      assert.equal((await me.get(`${jobPath(job)}log/`)).text.trim(), '20000000');
      const file = `${jobPath(job).replace('/jobs/', '/files/')}data`;
      const part = await me.send('GET', file, { range: 'bytes=5-9', 'accept-encoding': 'gzip' });
      assert.deepEqual([part.status, part.headers.get('content-length')], [206, '5']);
      const head = await me.send('HEAD', file);
      assert.deepEqual([head.status, head.headers.get('content-length')], [200, '20000000']);
      assert.equal(head.headers.get('content-encoding'), null);
    });

    test('passes on events and a followed log while the job runs, and the end of the client', async () => {
      const stream = await openEventStream(proxy.url, token, { path: '/events/?after=latest' });
      assert.equal(stream.status, 200, stream.text());
      const command = `echo begun; ${waitForGoScript}`;
      const { body: job } = await me.submit('/jobs/hpc_one/', { command, runtime: 0.1 });
      const log = await openEventStream(proxy.url, token, {
        path: `${jobPath(job)}log/?follow=1`,
        headers: { accept: 'text/plain' },
      });
      await until('the first line of the log', () => log.text().includes('begun') || undefined);
      await until('the event', () => stream.events().some(({ type }) => type === 'job.running') || undefined);
      stream.disconnect();
      releaseJob(server, job);
      await log.closed;
      const listeners = async () =>
        /kind="event_listener"\} 0\n/.test(await (await fetch(`${server.url}/metrics`)).text());
      await until('Bursar has noticed that the listener has gone', async () => (await listeners()) || undefined);
    });

    // The client sends the whole body. Bursar waits 30 seconds for a client that stops, before it responds. Caddy passes that
    // response on only when the client sends more, with HTTP/1.1: Go does not respond while it waits for the body.
    test('passes on the response to a body that is too large', async () => {
      const body = Buffer.alloc(26_000_000);
      const { submission, response } = beginSubmission({ 'content-length': body.length });
      submission.end(body);
      const [answer] = await response;
      const problem = JSON.parse(await text(answer)) as { code: string };
      assert.deepEqual([answer.statusCode, problem.code], [413, 'too_large']);
    });

    test('passes on errors unchanged', async () => {
      const longPayload = await me.send('POST', '/jobs/hpc_one/', { payload: 'x'.repeat(12_000) });
      assert.equal(longPayload.status, 400, longPayload.text);
      assert.equal((longPayload.body as { code: string }).code, 'invalid_content_disposition');
      const unknown = await me.get<{ code: string }>('/nothing/');
      assert.deepEqual([unknown.status, unknown.body.code], [404, 'not_found']);
    });

    test('says where a request comes from, whatever the client claims', async () => {
      const id = `address-${name}`;
      await me.send('GET', '/quotas/', { 'x-forwarded-for': '203.0.113.7', 'x-request-id': id });
      const line = await until('the line in the log', () =>
        server
          .log()
          .split('\n')
          .find((each) => each.includes(id)),
      );
      assert.equal((JSON.parse(line) as { address: string }).address, '127.0.0.1');
    });

    test('serves the web page and the probes over TLS, and no metrics', async () => {
      const page = await me.get('/app/');
      assert.equal(page.status, 200);
      assert.match(page.headers.get('strict-transport-security') ?? '', /max-age=\d+/);
      assert.equal((await me.get('/readyz')).status, 200);
      for (const path of ['/metrics', '/metrics/', '/%6detrics', '//metrics', '/./metrics', '/metrics?x=1'])
        assert.equal((await me.get(path)).status, 404, path);
    });
  });
}
