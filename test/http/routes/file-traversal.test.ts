import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import { isLongRun } from '../../support/long-run.ts';
import { bearerHeader, sendRawRequest } from '../../support/raw-http.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { readZip } from '../../support/unzip.ts';
import { createZip } from '../../support/zip.ts';

// Sends raw requests, because most HTTP clients normalise paths.

const secret = 'SECRET-OF-SOMEBODY-ELSE';
/** Text that no response may contain: a file beside the workspaces, another job's files, system files, the database. */
const forbidden = [secret, 'root:x:0', 'root:*:', 'SQLite format', 'PATH='];

let server: TestServer;
let me: Caller;
let mine: Job;
let other: Job;

before(async () => {
  server = await startServer();
  me = createCaller(server.url, server.userToken);
  writeFileSync(join(server.data, 'secret'), secret);
  const otherUser = createCaller(server.url, await server.token('4711'));
  const submit = async (caller: Caller, files: Record<string, string>, command: string) =>
    (await caller.submit('/jobs/hpc_one/', { command }, await createZip(files))).body;
  other = await submit(otherUser, { secret }, `cat secret`);
  mine = await submit(me, { 'honest.txt': 'honest', 'data/in': 'in' }, 'echo printed');
  await otherUser.waitUntilFinished(other);
  await me.waitUntilFinished(mine);
});
after(() => server.dispose());

const base = (job: Job) => `/files/hpc_one/proj_hpc_one_01/${job.job_id}/`;

async function request(path: string) {
  return await sendRawRequest(server.url, { path, headers: [bearerHeader(server.userToken), ['connection', 'close']] });
}

function assertNothingLeaked(about: string, text: string) {
  for (const marker of forbidden) assert.ok(!text.includes(marker), `${about} leaked ${marker}`);
}

/** Files outside the working directory. Their relative paths are encoded in many ways, for `..` and for `/`. */
const targets = ['secret', 'bursar.db', 'workspaces/OTHER/files/secret', 'workspaces/OTHER/stdout'];
const dots = [
  '..',
  '%2e%2e',
  '.%2e',
  '%2E.',
  '%252e%252e',
  '..;',
  '..%00',
  '..%20',
  '%c0%ae%c0%ae',
  '%u002e%u002e',
  '...',
  '．．',
];
const slashes = ['/', '%2f', '%2F', '%5c', '\\', '%252f', '//', '/./', '%c0%af', '%u2215', '／', ';/'];

const ends = ['', '/', '/?archive=zip'];
const requests = targets.flatMap((target) => ends.map((end) => ({ target, end })));

/** Without a long run, each spelling has one of the requests, and each `..` and each `/` meets all of them. */
const relative = dots.flatMap((up, row) =>
  slashes.map((slash, column) => ({
    spelling: `${up}${slash}`,
    path: [up, up, up, ''].join(slash),
    requests: isLongRun ? requests : requests.slice((row + column) % requests.length).slice(0, 1),
  })),
);

const absolute = [
  '/etc/passwd',
  '//etc/passwd',
  '%2fetc%2fpasswd',
  '%2Fetc/passwd',
  '%252fetc%252fpasswd',
  'file:///etc/passwd',
  'file:%2f%2f%2fetc%2fpasswd',
  '\\etc\\passwd',
  'C:\\secret',
  '~root/.profile',
  '~/.profile',
  '%7e/.profile',
  '/proc/self/environ',
  'proc/self/environ',
  './/etc/passwd',
  '%00/etc/passwd',
  '%0a/etc/passwd',
  '$HOME/.profile',
  '`cat%20/etc/passwd`',
  '$(cat%20/etc/passwd)',
  '*',
  'honest.txt/../../stdout',
  'honest.txt/../../../../secret',
  'data/../../stdout',
  'data/%2e%2e/%2e%2e/stdout',
  './honest.txt',
  'data/./in',
  'data/../honest.txt',
  'data//in',
  'honest.txt%00.png',
  '%00honest.txt',
  '.',
  '..',
  '%2e',
  '%2e%2e',
  '../files/honest.txt',
  '../stdout',
  '../stderr',
  '%2e%2e/stdout',
  '..%2fstdout',
];

describe('no encoding of a path reads files outside a workspace', () => {
  for (const { spelling, path, requests } of relative) {
    test(`${spelling}${spelling}…`, async () => {
      for (const { target, end } of requests) {
        const whole = base(mine) + path + target.replace('OTHER', other.job_id) + end;
        const { status, text } = await request(whole);
        assertNothingLeaked(whole, text);
        assert.ok(status === 404 || status === 400, `${whole}: ${status}`);
      }
    });
  }

  for (const path of absolute) {
    test(path, async () => {
      for (const end of ['', '/', '/?archive=zip', '?archive=zip']) {
        const { status, text } = await request(base(mine) + path + end);
        assertNothingLeaked(path, text);
        assert.ok(status === 404 || status === 400, `${path}${end}: ${status}`);
      }
    });
  }

  const jobs = [
    '..',
    '%2e%2e',
    '..%2f..',
    '.',
    '%2e',
    'OTHER',
    'MINE%2f..%2fOTHER',
    'MINE%2ffiles',
    'MINE.removed',
    'mine',
  ];
  for (const name of jobs) {
    test(`the job ${name}`, async () => {
      const id = name
        .replace('OTHER', other.job_id)
        .replace('MINE', mine.job_id)
        .replace('mine', mine.job_id.toLowerCase());
      for (const end of ['', 'secret', 'files/', '?archive=zip', '../../secret']) {
        for (const prefix of ['/files/hpc_one/proj_hpc_one_01/', '/files/hpc_one/../', '/files/../proj_hpc_one_01/']) {
          const { status, text } = await request(`${prefix}${id}/${end}`);
          assertNothingLeaked(id, text);
          assert.ok(status === 404 || status === 400, `${prefix}${id}/${end}: ${status}`);
        }
      }
    });
  }

  test('a request with an absolute URL', async () => {
    for (const path of ['/../../../secret', '/%2e%2e/%2e%2e/%2e%2e/secret', '/../stdout']) {
      const { status, text } = await request(`http://bursar${base(mine)}${path.slice(1)}`);
      assertNothingLeaked(path, text);
      assert.ok(status === 404 || status === 400, `${path}: ${status}`);
    }
  });

  for (const query of [
    'stream=../files/honest.txt',
    'stream=..%2f..%2fsecret',
    'stream=',
    'offset=-1',
    'stream=stdout%00',
  ]) {
    test(`the log with ${query}`, async () => {
      const { status, text } = await request(`/jobs/hpc_one/proj_hpc_one_01/${mine.job_id}/log/?${query}`);
      assertNothingLeaked(query, text);
      assert.equal(status, 400);
    });
  }

  test('the files of the job itself can still be read', async () => {
    assert.equal((await request(`${base(mine)}honest.txt`)).text, 'honest');
    assert.equal((await request(`${base(mine)}data/in`)).text, 'in');
    assert.equal((await request(`${base(mine)}data%2fin`)).text, 'in');
  });
});

describe('no link that a job creates gives access to files outside its workspace', () => {
  const data = '../../..';
  const tricks: Record<string, { make: string; paths: string[] }> = {
    'a link to a file beside the workspaces': { make: `ln -s ${data}/secret l1`, paths: ['l1'] },
    'an absolute link': { make: 'ln -s /etc/passwd l2', paths: ['l2'] },
    'a link to a folder': {
      make: `ln -s ${data} l3`,
      paths: ['l3', 'l3/', 'l3/secret', 'l3/bursar.db', 'l3/?archive=zip'],
    },
    'a link to /': { make: 'ln -s / l4', paths: ['l4/', 'l4/etc/passwd', 'l4/?archive=zip'] },
    'a link to the other jobs': { make: 'ln -s ../.. l5', paths: ['l5/', 'l5/OTHER/stdout', 'l5/OTHER/files/secret'] },
    'a link to a link': { make: 'ln -s l2 l6', paths: ['l6'] },
    'a link in a subfolder': {
      make: 'mkdir -p a/b && ln -s /etc a/b/l7',
      paths: ['a/b/l7', 'a/b/l7/', 'a/b/l7/passwd'],
    },
    'a link to its own environment': { make: 'ln -s /proc/self/environ l8', paths: ['l8'] },
    'a link to /proc': {
      make: 'ln -s /proc/self l9',
      paths: ['l9/', 'l9/environ', 'l9/root/etc/passwd', 'l9/cwd/secret'],
    },
    'a link to itself': { make: 'ln -s l10 l10', paths: ['l10', 'l10/', 'l10/l10'] },
    'a hard link': { make: `ln ${data}/secret h1`, paths: ['h1'] },
    'two hard links': { make: `ln ${data}/secret h2; ln ${data}/secret a/h3`, paths: ['h2', 'a/h3', 'a/?archive=zip'] },
    'a pipe': { make: 'mkfifo p1', paths: ['p1', 'p1/'] },
    'a pipe with a writer': { make: 'mkfifo p2', paths: ['p2'] },
    'a socket': {
      make: ':',
      paths: ['s1'],
    },
    'a link with the name of a header': { make: `ln -s /etc/passwd "$(printf 'x\\r\\ny')"`, paths: ['x%0d%0ay'] },
    'a link that replaces stderr': { make: 'ln -sf /etc/passwd ../stderr', paths: [] },
  };
  let tricky: Job;
  let writer: ChildProcess;
  const socket = createServer();

  before(async () => {
    tricky = (await me.submit('/jobs/hpc_one/', { command: waitForGoScript }, await createZip({ 'tricks.sh': '' })))
      .body;
    await waitForStage(me, tricky, 'RUNNING');
    // Run by the test: an isolated job could not make all of them, because it does not see the files.
    const files = join(server.data, 'workspaces', tricky.job_id, 'files');
    const command = Object.values(tricks).map(({ make }) => make);
    execFileSync('bash', ['-c', [...command, 'echo made > made'].join('\n')], { cwd: files, stdio: 'ignore' });
    writer = spawn('sh', ['-c', 'exec cat > p2'], { cwd: files, stdio: 'ignore' });
    await once(socket.listen(join(files, 's1')), 'listening');
  });
  after(async () => {
    writer.kill();
    socket.close();
    releaseJob(server, tricky);
    await me.waitUntilFinished(tricky);
  });

  for (const [name, { paths }] of Object.entries(tricks)) {
    test(name, async () => {
      for (const path of paths.map((each) => each.replace('OTHER', other.job_id))) {
        const { status, text } = await request(base(tricky) + path);
        assertNothingLeaked(path, text);
        if (!path.startsWith('a/?')) assert.equal(status, 404, path);
      }
      const { text } = await request(`/jobs/hpc_one/proj_hpc_one_01/${tricky.job_id}/log/?stream=stderr`);
      assertNothingLeaked('the log', text);
      assert.equal(text, '');
    });
  }

  test('lists and archives contain no links', async () => {
    const { body } = await me.get<{ path: string }[]>(base(tricky));
    assert.deepEqual(
      body.map(({ path }) => path),
      ['made', 'tricks.sh'],
    );
    const headers = { authorization: `Bearer ${server.userToken}` };
    const response = await fetch(`${server.url}${base(tricky)}?archive=zip`, { headers });
    const contents = await readZip(Buffer.from(await response.arrayBuffer()));
    assert.deepEqual([...contents.keys()].sort(), ['a/', 'a/b/', 'made', 'tricks.sh']);
  });

  test('a folder that is repeatedly replaced by a link returns only its own files or 404', async () => {
    const swap = `mkdir -p d/workspaces/OTHER; echo mine | tee d/secret > d/workspaces/OTHER/stdout; ln -s ${data} l
      while [ ! -e go ] && [ -d "$PWD" ]; do mv -T d d2; mv -T l d; mv -T d l; mv -T d2 d; done`;
    const zip = await createZip({ 'swap.sh': swap.replaceAll('OTHER', other.job_id) });
    const { body: job } = await me.submit('/jobs/hpc_one/', { command: 'bash swap.sh' }, zip);
    await waitForStage(me, job, 'RUNNING');
    const seen = new Set<number>();
    const rounds = isLongRun ? 150 : 25;
    for (let round = 0; round < rounds; round += 1) {
      for (const path of ['d/secret', `d/workspaces/${other.job_id}/stdout`, 'd/', 'd/?archive=zip', '?archive=zip']) {
        const { status, text } = await request(base(job) + path);
        assertNothingLeaked(path, text);
        assert.ok(!text.includes('bursar.db'), `${path} listed files outside the workspace`);
        seen.add(status);
      }
    }
    releaseJob(server, job);
    await me.waitUntilFinished(job);
    assert.ok(seen.has(200));
    assert.deepEqual(
      [...seen].filter((status) => status !== 200 && status !== 404),
      [],
    );
  });
});
