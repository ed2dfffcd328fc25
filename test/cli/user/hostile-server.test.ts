import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Bursar } from '#client';
import { createSubmitFixture, type SubmitFixture } from './submit-fixture.ts';

// Servers that are not Bursar, or that attack the users of the command line.

const token = 'bursar_secret';

interface Answer {
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
}

const job = {
  ...{ id: 1, job_id: 'ABCD1', owner: '1', project: 1, project_hpc: 'HPC_ONE', project_name: 'p', runtime: 1 },
  ...{ stage: 'RUNNING\u001b[2J', title: 'one\u001b]0;title\u0007\u009b2J', terminal_stage: false, failed: false },
  ...{ init_date: '2026-01-01T00:00:00Z', end_date: null },
};

describe('a server that is not Bursar', () => {
  let server: Server;
  let other: Server;
  let fixture: SubmitFixture;
  let answer: (path: string) => Answer = () => ({});
  const requests: string[] = [];
  const requestsToOther: string[] = [];
  const portOf = (one: Server) => (one.address() as AddressInfo).port;

  before(async () => {
    server = createServer((request, response) => {
      requests.push(`${request.method} ${request.url}`);
      const { status = 200, headers = {}, body = {} } = answer(request.url ?? '');
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    });
    other = createServer((request, response) => {
      requestsToOther.push(String(request.headers.authorization));
      response.end('[]');
    });
    for (const one of [server, other]) await new Promise<void>((resolve) => void one.listen(0, '127.0.0.1', resolve));
    fixture = createSubmitFixture(`http://127.0.0.1:${portOf(server)}`, token);
  });
  after(() => {
    for (const one of [server, other]) {
      one.close();
      one.closeAllConnections();
    }
    fixture.dispose();
  });

  const jobs = (options = {}) =>
    fixture.call(() => import('../../../src/cli/user/job/jobs.ts'), { all: true, ...options });

  test('that redirects gets no second request, and the user sees the new address', async () => {
    answer = () => ({ status: 302, headers: { location: `http://127.0.0.1:${portOf(other)}/` } });
    const { stderr } = await jobs();
    assert.match(stderr, /The server has moved to http:\/\/127\.0\.0\.1:\d+\//);
    assert.deepEqual(requestsToOther, []);
  });

  test('that names the next page on another host does not get it the token', async () => {
    // The port would become longer, and be that of another server.
    const client = new Bursar({ url: `http://127.0.0.1:${portOf(server)}`, token });
    for (const next of [`//127.0.0.1:${portOf(other)}/`, `@127.0.0.1:${portOf(other)}/`, '0/']) {
      answer = () => ({ headers: { link: `<${next}>; rel="next"` }, body: [job] });
      const found = await Array.fromAsync(client.jobs());
      assert.equal(found.length, 1);
    }
    assert.deepEqual(requestsToOther, []);
  });

  test('that answers with a page or with nothing is named, instead of a bug in the command line', async () => {
    for (const body of ['<html>Sign in</html>', '{"a":', 'null', '']) {
      answer = () => ({ headers: { 'content-type': 'text/html' }, body });
      const { code, stderr } = await jobs();
      assert.equal(code, 1);
      assert.match(stderr, /does not answer as Bursar does/);
      assert.match(stderr, /Check the address/);
      assert.doesNotMatch(stderr, /bug/);
    }
  });

  test('that has members of wrong types in its errors is reported', async () => {
    answer = () => ({ status: 400, body: { detail: 5, code: {}, errors: 'x', request_id: [] } });
    const { stderr } = await jobs();
    assert.match(stderr, /status 400/);
  });

  test('that answers with a page instead of events is not asked again and again', async () => {
    requests.length = 0;
    answer = (path) => (path.includes('latest') ? { body: { events: [], next: 0 } } : { body: '<html>' });
    const { stderr } = await fixture.call(() => import('../../../src/cli/user/events/events.ts'), { follow: true });
    assert.match(stderr, /does not answer with a stream of events/);
    assert.equal(requests.length, 2);
  });

  test('sends no escape sequence to the terminal: not in errors, and not in JSON', async () => {
    const listed = [job, { ...job, id: 2, job_id: 'ABCD2' }];
    const summaries = { jobs: listed.map((each) => ({ job: each })), next: null };
    answer = (path) => ({ body: path.startsWith('/job-summaries/') ? summaries : listed });
    const ambiguous = await fixture.call(() => import('../../../src/cli/user/job/show.ts'), { job: 'ABCD' });
    assert.match(ambiguous.stderr, /RUNNING\\u001b\[2J {2}one\\u001b\]0;title\\u0007/);
    const { stdout } = await jobs({ json: true });
    assert.ok(stdout.includes('\\u009b2J'));
    // biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern finds control characters
    assert.doesNotMatch(ambiguous.stderr + stdout, /[\u001b\u0007\u0080-\u009f]/);
    assert.equal(JSON.parse(stdout)[0].title, job.title);
  });

  test('cannot make a download leave its folder', async () => {
    const files = ['ok.txt', '../../stolen.txt'].map((path) => ({ path, size: 2, modified: '2026-01-01T00:00:00Z' }));
    answer = (path) => ({
      body: path.startsWith('/files/') ? (path.endsWith('/ok.txt') ? '{}' : files) : { jobs: [{ job }], next: null },
    });
    const output = join(fixture.folder({ x: '' }), 'a/b');
    const options = { job: '@last', paths: [], output };
    const { code, stderr } = await fixture.call(() => import('../../../src/cli/user/job/download.ts'), options);
    assert.equal(code, 1);
    assert.match(stderr, /error: The file \.\.\/\.\.\/stolen\.txt has a name that is not safe to save\./);
    assert.ok(!existsSync(join(output, '../../stolen.txt')));
  });

  test('cannot make the user open anything but a web page', async () => {
    for (const address of ['javascript:alert(1)', 'file:///etc/passwd', '--help']) {
      const code = { device_code: 'd', user_code: 'u', verification_uri: address };
      answer = (path) => ({ body: path.startsWith('/oauth/') ? code : { issuers: [] } });
      const options = { url: fixture.env.BURSAR_URL, web: true };
      const { stderr } = await fixture.call(() => import('../../../src/cli/user/account/login.ts'), options);
      assert.match(stderr, /names a page that is none/);
    }
  });

  test('a token that cannot be sent is not shown', async () => {
    const broken = createSubmitFixture(fixture.env.BURSAR_URL ?? '', 'bursar_secret\nline');
    const { code, stderr } = await broken.call(() => import('../../../src/cli/user/account/whoami.ts'), {
      verbose: true,
    });
    broken.dispose();
    assert.equal(code, 4);
    assert.match(stderr, /The token has spaces, line breaks/);
    assert.doesNotMatch(stderr, /bursar_secret/);
  });
});
