import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Event, Job, Timeline } from '#client';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { insertEvent } from '../../../src/store/events/events.ts';
import { type Caller, createCaller } from '../../support/api.ts';
import { withDatabase } from '../../support/database.ts';
import { jobPath, releaseJob, submitShellLine, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { createProgramFixture, type ProgramFixture, parseTable } from './program-fixture.ts';

// The commands about jobs in a pipe, and as JSON.

const parseLines = <T>(text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as T);

describe('commands about jobs', () => {
  let server: TestServer;
  let me: Caller;
  let bursar: ProgramFixture;
  /** A finished job with files, on the tool system. */
  let finished: Job;
  before(async () => {
    server = await startServer();
    me = createCaller(server.url, server.userToken);
    bursar = createProgramFixture(server.url, server.userToken);
    const line = 'mkdir out; echo hello | tee out/a.txt; head -c 300 /dev/urandom > bytes; echo problem >&2';
    finished = (await submitShellLine(me, '/jobs/hpc_two/', line, { title: 'finished' })).body as Job;
    await me.waitUntilFinished(finished);
    finished = (await me.get<Job>(jobPath(finished))).body;
  });
  after(async () => {
    bursar.dispose();
    await server.dispose();
  });

  async function submitWaiting(line = waitForGoScript, title = 'waiting'): Promise<Job> {
    const { body } = await submitShellLine(me, '/jobs/hpc_one/', line, { title });
    await waitForStage(me, body, 'RUNNING');
    return body as Job;
  }

  test('jobs, show, timeline, log and files print tables and the objects of the API', async () => {
    const id = finished.job_id;
    const rows = parseTable((await bursar.run('jobs')).stdout);
    assert.deepEqual([rows[0]?.job, rows[0]?.stage, rows[0]?.ended], [id, 'COMPLETED', finished.end_date]);
    assert.deepEqual(await bursar.json('jobs', '--all'), (await me.get('/jobs/')).body);
    assert.deepEqual(await bursar.json('job', 'show', id.toLowerCase()), finished);
    assert.match((await bursar.run('job', 'show', '@last')).stdout, new RegExp(`^job\t${id}\ntitle\tfinished\n`));
    assert.deepEqual(await bursar.json('job', 'timeline', id), (await me.get(`${jobPath(finished)}timeline/`)).body);
    assert.match((await bursar.run('job', 'timeline', id)).stdout, /\tjob\.ended\tCOMPLETED\tsucceeded\t/);
    assert.equal((await bursar.run('job', 'log', id)).stdout, 'hello\n');
    assert.equal((await bursar.run('job', 'log', id, '--stderr')).stdout, 'problem\n');
    assert.deepEqual(parseLines((await bursar.run('job', 'log', id, '--json')).stdout), [
      { stream: 'stdout', text: 'hello\n' },
    ]);
    assert.deepEqual(
      await bursar.json('job', 'files', id),
      (await me.get(jobPath(finished).replace('jobs', 'files'))).body,
    );
    assert.match((await bursar.run('job', 'files', id)).stdout, /^path\tsize\tmodified\n(.*\n)*out\/a\.txt\t6\t20/);
    assert.match((await bursar.onTerminal('job', 'files', id)).stdout, /out\/a\.txt +6 B +/);
  });

  test('a job is found by the beginning of its id without reading the list of jobs', async () => {
    const paths: string[] = [];
    const proxy = createServer(async (request, response) => {
      paths.push(request.url ?? '');
      const { status, headers, body } = await fetch(`${server.url}${request.url}`, {
        headers: { authorization: `Bearer ${server.userToken}` },
      });
      response.writeHead(status, { 'content-type': headers.get('content-type') ?? '' });
      if (body !== null) for await (const chunk of body) response.write(chunk);
      response.end();
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const throughProxy = createProgramFixture(
      `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
      server.userToken,
    );
    try {
      for (const args of [
        ['job', 'show', '@last'],
        ['job', 'log', finished.job_id.slice(0, -8)],
        ['complete-words', '--', 'job', 'show', finished.job_id.slice(0, -20).toLowerCase()],
      ]) {
        const { code, stdout } = await throughProxy.run(...args);
        assert.deepEqual([code, stdout === ''], [0, false], args.join(' '));
      }
    } finally {
      throughProxy.dispose();
      proxy.close();
    }
    assert.equal(paths.filter((path) => path.startsWith('/job-summaries/')).length, 3);
    assert.deepEqual(
      paths.filter((path) => path.startsWith('/jobs/?') || path === '/jobs/'),
      [],
    );
  });

  test('filters select jobs, and wrong ones are refused', async () => {
    const count = async (...args: string[]) => (await bursar.json<Job[]>('jobs', ...args)).length;
    const own = ['--title', 'finished'];
    assert.deepEqual(
      [
        await count(
          ...own,
          '--stage',
          'COMPLETED',
          '--system',
          'hpc_two',
          '--project',
          'proj_hpc_two_01',
          '--since',
          '1h',
        ),
        await count(...own, '--project', 'proj_other'),
        await count(...own, '--failed'),
        await count('--since', '2100-01-01'),
      ],
      [1, 0, 0, 0],
    );
    assert.equal((await bursar.onTerminal('jobs', '--failed')).stderr, 'There are no such jobs.\n');
    const wrong = await bursar.run('jobs', '--since', 'ever');
    assert.deepEqual([wrong.code, wrong.stdout], [2, '']);
    assert.equal((await bursar.run('jobs', '--watch', '--failed')).code, 2);
  });

  test('download writes files, one file to standard output, and a zip', async () => {
    const id = finished.job_id;
    const target = join(bursar.folder, 'results');
    const all = await bursar.run('job', 'download', id, '-o', target);
    assert.equal(all.code, 0, all.stderr);
    assert.ok(all.stdout.split('\n').includes(join(target, 'out/a.txt')), all.stdout);
    assert.equal(readFileSync(join(target, 'out/a.txt'), 'utf8'), 'hello\n');
    const bytes = readFileSync(join(target, 'bytes'), 'latin1');
    const some = await bursar.json<{ path: string }[]>('job', 'download', id, 'out', '-o', join(bursar.folder, 'some'));
    assert.deepEqual(
      some.map(({ path }) => path),
      ['out/a.txt'],
    );

    assert.equal((await bursar.run('job', 'download', id, 'bytes', '-o', '-')).stdout, bytes);
    const zip = join(bursar.folder, 'all.zip');
    assert.equal((await bursar.run('job', 'download', id, '--zip', '-o', zip)).code, 0);
    assert.equal(readFileSync(zip).subarray(0, 2).toString(), 'PK');
    assert.equal((await bursar.run('job', 'download', id, '--zip', '-o', '-')).stdout.slice(0, 2), 'PK');

    for (const args of [
      ['--zip', 'bytes'],
      ['-o', '-'],
      ['-o', '-', 'bytes', 'main.sh'],
      ['-o', '-', '--zip', 'bytes'],
    ]) {
      const { code, stdout } = await bursar.run('job', 'download', id, ...args);
      assert.deepEqual([code, stdout], [2, ''], args.join(' '));
    }
    assert.equal((await bursar.onTerminal('job', 'download', id, 'bytes', '-o', '-')).code, 2);
    const missing = join(bursar.folder, 'missing');
    const none = await bursar.run('job', 'download', id, 'nothing', '-o', missing);
    assert.deepEqual([none.code, none.stderr.split('\n')[0]], [1, 'error: The job has no file nothing.']);
    assert.equal(existsSync(missing), false);
  });

  test('cancel ends a running job, and show --watch and log -f of it exit with 103', async () => {
    const job = await submitWaiting(`echo out; ${waitForGoScript}`);
    const id = job.job_id;
    const show = bursar.start('job', 'show', '--watch', id);
    const watching = bursar.start('jobs', '--watch');
    const log = bursar.start('job', 'log', '-f', id);
    const logJson = bursar.start('job', 'log', '-f', id, '--json');
    await log.waitFor('out\n');
    await logJson.waitFor('out');
    await show.waitFor('RUNNING');
    await watching.waitFor(id);
    const cancelled = await bursar.run('job', 'cancel', id, '--wait');
    assert.deepEqual([cancelled.code, cancelled.stderr], [0, `The job ${id} has ended: CANCELED.\n`]);
    const ends = await Promise.all([show.ended, log.ended, logJson.ended, watching.ended]);
    assert.deepEqual(
      ends.map(({ code }) => code),
      [103, 103, 103, 0],
    );
    assert.match(show.stdout(), /^\S+Z\tRUNNING\n\S+Z\tCANCELED\n$/);
    assert.equal(log.stdout(), 'out\n');
    assert.deepEqual(parseLines(logJson.stdout()), [{ stream: 'stdout', text: 'out\n' }]);
    const changes = parseTable(watching.stdout()).filter((row) => row.job === id);
    assert.deepEqual([changes[0]?.stage, changes.at(-1)?.stage], ['RUNNING', 'CANCELED']);
    assert.equal((await bursar.json<Job>('job', 'cancel', id)).stage, 'CANCELED');
  });

  test('show --watch and log -f of a failed job exit with 100, and JSON is one job a line', async () => {
    const job = await submitWaiting(`${waitForGoScript}; exit 3`);
    const show = bursar.start('job', 'show', '--watch', '--json', job.job_id);
    const watching = bursar.start('jobs', '--watch', '--json', '--system', 'HPC_ONE');
    const log = bursar.start('job', 'log', '-f', job.job_id);
    await show.waitFor('RUNNING');
    await watching.waitFor(job.job_id);
    releaseJob(server, job);
    const ends = await Promise.all([show.ended, log.ended, watching.ended]);
    assert.deepEqual(
      ends.map(({ code }) => code),
      [100, 100, 0],
    );
    const ended = (await me.get<Job>(jobPath(job))).body;
    assert.deepEqual(parseLines(show.stdout()).at(-1), ended);
    const changes = parseLines<Job>(watching.stdout());
    assert.deepEqual(changes.at(-1), ended);
    assert.ok(changes.every(({ project_hpc: name }) => name === 'HPC_ONE'));
    const again = await bursar.run('job', 'show', '--watch', job.job_id);
    assert.deepEqual([again.code, again.stdout], [100, `${ended.end_date}\tFAILED\n`]);
  });

  test('delete removes the files of a finished job only', async () => {
    const job = await submitWaiting();
    const refused = await bursar.run('job', 'delete', job.job_id);
    assert.equal(refused.code, 1, refused.stderr);
    releaseJob(server, job);
    await me.waitUntilFinished(job);
    const deleted = await bursar.run('job', 'delete', job.job_id);
    assert.deepEqual([deleted.code, deleted.stderr], [0, `The files of the job ${job.job_id} are deleted.\n`]);
    assert.equal((await bursar.json<Job>('job', 'delete', job.job_id)).stage, 'DELETED');
  });

  test('resubmit sends the request and the tags of an earlier job, and only the input that is named', async () => {
    const input = join(bursar.folder, 'model');
    mkdirSync(input);
    writeFileSync(join(input, 'main.sh'), 'ls; echo "$@" > result.txt\n');
    const options = [
      '--tool',
      'BASH',
      '--param',
      'arguments=-a 1',
      '--tag',
      'alpha',
      '--tag',
      'beta',
      '--runtime',
      '6m',
    ];
    const first = await bursar.json<Job>('submit', input, ...options);
    await me.waitUntilFinished(first);

    for (const args of [[], [input, '--without-input']]) {
      const { code, stdout, stderr } = await bursar.run('job', 'resubmit', first.job_id, ...args);
      assert.deepEqual([code, stdout], [2, ''], stderr);
      assert.match(stderr, /cannot tell the input of the earlier job from its results/);
    }
    const again = await bursar.run('job', 'resubmit', first.job_id, input, '--title', 'again');
    assert.equal(again.code, 0, again.stderr);
    const job = (await bursar.json<Job[]>('jobs', '--title', 'again'))[0] as Job;
    assert.deepEqual(
      [again.stdout, job.runtime, job.project_name],
      [`${job.job_id}\n`, first.runtime, first.project_name],
    );
    await me.waitUntilFinished(job);
    assert.equal((await bursar.run('job', 'log', job.job_id)).stdout, 'main.sh\n', 'no result of the earlier job');
    const { request, tags } = await bursar.json<Timeline>('job', 'timeline', job.job_id);
    assert.deepEqual([request.tool, request.params, tags], ['BASH', { arguments: ['-a', '1'] }, ['alpha', 'beta']]);
    const other = await bursar.json<Job>('job', 'resubmit', first.job_id, input, '--param', 'arguments=-b');
    assert.deepEqual((await bursar.json<Timeline>('job', 'timeline', other.job_id)).request.params, {
      arguments: ['-b'],
    });
    const unused = await bursar.run('job', 'resubmit', first.job_id, input, '--param', 'steps=1');
    assert.deepEqual([unused.code, unused.stdout], [2, ''], unused.stderr);
    assert.match(unused.stderr, /Nothing uses the parameter steps/);

    const batch = await submitShellLine(me, '/jobs/hpc_one/', 'echo content > kept', { title: 'batch' });
    await me.waitUntilFinished(batch.body);
    const { job_id: id } = batch.body;
    const same = await bursar.json<Job>('job', 'resubmit', id, '--without-input', '--nodes', '2');
    const { request: repeated } = await bursar.json<Timeline>('job', 'timeline', same.job_id);
    assert.deepEqual([repeated.command, repeated.nodes, same.title], ['echo content > kept', 2, 'batch']);
    const missing = await bursar.run('job', 'resubmit', id, '--without-input', '--command', 'sbatch run.sh');
    assert.equal(missing.code, 1, missing.stderr);
    assert.match(missing.stderr, /run\.sh/);
    const short = await bursar.json<Job>(
      'job',
      'resubmit',
      id,
      '--without-input',
      '--command',
      'ls',
      '--runtime',
      '5m',
    );
    await me.waitUntilFinished(short);
    assert.equal((await bursar.run('job', 'log', short.job_id)).stdout, '');
    assert.match((await bursar.onTerminal('job', 'show', short.job_id)).stdout, /runtime granted\S* +5 min\n/);
    assert.equal((await bursar.run('job', 'resubmit', id, '--without-input', '--nodes', 'two')).code, 2);
  });

  test('a beginning that several jobs share is refused, with the candidates', async () => {
    const { code, stdout, stderr } = await bursar.run('job', 'show', 'bursar-job');
    assert.deepEqual([code, stdout], [2, '']);
    assert.match(stderr, /^error: \d jobs begin with "bursar-job"\. Write more of the id:\n/);
    assert.ok(stderr.includes(`  ${finished.job_id}  COMPLETED  finished\n`), stderr);
    const unknown = await bursar.run('job', 'log', '-f', 'nothing');
    assert.deepEqual(
      [unknown.code, unknown.stderr.split('\n')[0]],
      [1, 'error: There is no job whose id begins with "nothing".'],
    );
  });

  test('events are listed and followed, from a given one or from now on', async () => {
    const events = await bursar.json<Event[]>('events');
    assert.deepEqual(events, (await me.get<{ events: Event[] }>('/events/?limit=1000')).body.events);
    const { code, stderr } = await bursar.run('events', '--follow', '--limit', '1');
    assert.equal(code, 2, stderr);
    assert.match(stderr, /--follow and --limit exclude each other/);
    const newest = parseTable((await bursar.run('events', '--limit', '1')).stdout);
    assert.deepEqual(
      newest.map(({ id }) => id),
      [String(events.at(-1)?.id)],
    );
    assert.equal((await bursar.json<Event[]>('events', '--after', String(events[1]?.id))).length, events.length - 2);
    assert.equal((await bursar.run('events', '--after', 'x')).code, 2);

    const json = bursar.start('events', '-f', '--json', '--after', String(events[0]?.id));
    const text = bursar.start('events', '-f', '--after', String(events.at(-1)?.id));
    const job = await submitWaiting();
    releaseJob(server, job);
    for (const following of [json, text]) {
      await following.waitFor(job.job_id);
      await following.waitFor('SUCCESSFUL');
      following.interrupt();
      assert.equal((await following.ended).code, 130);
    }
    const lines = parseLines<Event>(json.stdout());
    assert.deepEqual(lines.slice(0, events.length - 1), events.slice(1));
    assert.match(text.stdout(), new RegExp(`^\\d+\t\\S+Z\tjob\\.accepted\t${job.job_id}\tQUEUED\t`));
  });

  test('the newest events are listed, however many there are and though the oldest are deleted', async () => {
    const user = '303400';
    const other = createProgramFixture(server.url, await server.token(user));
    const insert = (count: number) =>
      withDatabase(server.data, (db) =>
        inTransaction(db, async (tx) => {
          for (let index = 0; index < count; index++)
            await insertEvent(tx, { userId: user, job: null, kind: 'quota.threshold', data: {}, at: Date.now() });
        }),
      );
    const ids = async (...args: string[]) => (await other.json<Event[]>('events', ...args)).map(({ id }) => id);
    try {
      await insert(1);
      const [oldest = 0] = await ids();
      await insert(1199);
      const last = oldest + 1199;
      assert.deepEqual(await ids('--limit', '3'), [last - 2, last - 1, last]);
      assert.deepEqual(await ids('--limit', '3', '--after', String(last - 2)), [last - 1, last]);
      assert.equal((await ids()).length, last);
      assert.equal((await ids('--limit', '1100')).length, 1100);
      await withDatabase(server.data, (db) =>
        inTransaction(db, async (tx) => {
          await tx
            .deleteFrom('events')
            .where('userId', '=', user)
            .where('seq', '<=', last - 2)
            .execute();
          await tx
            .updateTable('users')
            .set({ eventsExpired: last - 2 })
            .where('id', '=', user)
            .execute();
        }),
      );
      assert.deepEqual(await ids('--limit', '3'), [last - 1, last]);
      assert.deepEqual(await ids(), [last - 1, last]);
      assert.equal((await other.run('events', '--limit', '0')).code, 2);
    } finally {
      other.dispose();
    }
  });
});
