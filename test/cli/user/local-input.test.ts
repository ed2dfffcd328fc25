import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { System } from '#client';
import { createLocalInputCheck } from '../../../src/cli/user/submit/check-local-input.ts';
import { openJobInput } from '../../../src/cli/user/submit/open-input.ts';
import { forgedZips, hostileLimits, hostileZips, makeZip } from '../../files/zip/hostile-zips.ts';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { createSubmitFixture, type SubmitFixture } from './submit-fixture.ts';

interface Problem {
  code: string;
  detail: string;
}

describe('the input of a job is checked before it is sent', () => {
  let server: TestServer;
  let me: Caller;
  let system: System;
  let fixture: SubmitFixture;
  let folder: string;
  before(async () => {
    const { maxEntries, maxUnpackedBytes } = hostileLimits;
    const config = shippedConfig();
    const submissions = { ...config.submissions, maxEntries, maxUnpackedKb: maxUnpackedBytes / 1000 };
    server = await startServer({ config: { ...config, submissions } });
    me = createCaller(server.url, server.userToken);
    fixture = createSubmitFixture(server.url, server.userToken);
    const { body } = await me.get<System[]>('/hpc/hpc_one/');
    const [found] = [body].flat();
    assert.ok(found);
    system = found;
    folder = mkdtempSync(join(tmpdir(), 'bursar-local-input-'));
  });
  after(async () => {
    rmSync(folder, { recursive: true });
    fixture.dispose();
    await server.dispose();
  });

  async function findProblem(path: string, command: string): Promise<Problem | null> {
    try {
      await createLocalInputCheck(await openJobInput(path), system)({ command });
      return null;
    } catch (error) {
      const { code, message } = error as Error & { code: string };
      return { code, detail: message };
    }
  }

  /** The problem of the server, for the same zip. */
  async function submitZip(zip: Buffer, command: string): Promise<Problem | null> {
    const { status, body } = await me.submit('/jobs/hpc_one/', { command }, zip);
    if (status === 201) return null;
    const { code, detail } = body as unknown as Problem;
    return { code, detail };
  }

  test('the system says what the server allows', () => {
    assert.deepEqual(system.input_limits, {
      bytes: 2_000_000_000,
      entries: 1000,
      unpacked_bytes: 100_000_000,
      ratio: 200,
      verified_bytes: 64_000_000,
    });
  });

  test('every hostile zip is refused here as it is there: same code, same text', async () => {
    for (const { name, bytes, message } of [...hostileZips, ...forgedZips]) {
      const path = join(folder, 'hostile.zip');
      writeFileSync(path, bytes);
      const problem = await findProblem(path, 'true');
      assert.equal(problem?.code, 'invalid_zip', name);
      assert.match(problem.detail, message, name);
      assert.deepEqual(problem, await submitZip(bytes, 'true'), name);
    }
  });

  test('a zip without the start file is refused here as it is there', async () => {
    const zip = await makeZip({ 'job/run.sh': 'true', 'job/data': 'x' });
    const path = join(folder, 'job.zip');
    writeFileSync(path, zip);
    const problem = await findProblem(path, 'sbatch start.sh');
    assert.equal(problem?.code, 'start_file_missing');
    assert.deepEqual(problem, await submitZip(zip, 'sbatch start.sh'));
    assert.equal(await findProblem(path, 'sbatch run.sh'), null);
  });

  test('no request with the zip is sent, and no job exists', async () => {
    const jobs = (await me.get<Job[]>('/jobs/')).body.length;
    for (const { bytes } of [...hostileZips.slice(0, 1), ...forgedZips.slice(0, 1)]) {
      const path = join(folder, 'evil.zip');
      writeFileSync(path, bytes);
      const { code, stderr } = await fixture.run('submit', path, '--command', 'true', '--verbose');
      assert.equal(code, 1);
      assert.match(stderr, /error: The (body|zip)/);
      assert.doesNotMatch(stderr, /POST/);
    }
    assert.equal((await me.get<Job[]>('/jobs/')).body.length, jobs);
  });

  function createFolder(name: string, files: Record<string, string | Buffer>): string {
    const path = join(folder, name);
    mkdirSync(path);
    for (const [file, content] of Object.entries(files)) writeFileSync(join(path, file), content);
    return path;
  }

  test('a folder is checked by the same rules', async () => {
    const many = Object.fromEntries(Array.from({ length: 1001 }, (_, index) => [`f${index}`, '']));
    const small = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`z${index}`, Buffer.alloc(900_000)]));
    for (const [name, files, message] of [
      ['many', many, /1001 files and folders, and at most 1000/],
      ['device', { aux: 'x' }, /"aux" has a name that is reserved/],
      ['control', { 'a\nb': 'x' }, /control characters/],
      ['twice', { '\u00e9': 'x', 'e\u0301': 'y' }, /occurs twice/],
      ['zeros', { a: 'x', zeros: Buffer.alloc(3_000_000) }, /"zeros" compresses to less than 1\/200/],
      ['together', small, /The folder compresses to less than 1\/200/],
    ] as const) {
      const problem = await findProblem(createFolder(name, files), 'true');
      assert.equal(problem?.code, 'invalid_zip', name);
      assert.match(problem.detail, message);
    }
    const missing = await findProblem(createFolder('missing', { 'run.sh': 'x' }), 'sbatch start.sh');
    assert.equal(missing?.code, 'start_file_missing');
    const text = Buffer.from(Array.from({ length: 300_000 }, (_, index) => `line ${index}\n`).join(''));
    const good = createFolder('good', { 'run.sh': 'x', text, short: Buffer.alloc(900_000) });
    symlinkSync('run.sh', join(good, 'link.sh'));
    assert.equal(await findProblem(good, 'sbatch link.sh'), null);
  });

  test('a folder with a file of more than the maximum size is refused', async () => {
    const path = createFolder('large', {});
    writeFileSync(join(path, 'sparse'), '');
    truncateSync(join(path, 'sparse'), hostileLimits.maxUnpackedBytes + 1);
    assert.match((await findProblem(path, 'true'))?.detail ?? '', /"sparse" has more than 100 MB/);
  });
});
