import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { buildClientPackage } from '../../../clients/typescript/build.mjs';
import { oldestNode } from '../../support/oldest-node.ts';
import { findExample } from '../../support/readme.ts';
import { startServer, type TestServer } from '../../support/server.ts';

const run = promisify(execFile);
const clientFolder = fileURLToPath(new URL('../../../clients/typescript/', import.meta.url));
const compiler = fileURLToPath(new URL('../../../node_modules/typescript-7/bin/tsc', import.meta.url));
const maxGzipBytes = 12_000;

/** A project with the built package in its node_modules. */
let folder: string;
let server: TestServer;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bursar-client-'));
  await mkdir(join(folder, 'node_modules/@bursar'), { recursive: true });
  await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
  [server] = await Promise.all([startServer(), buildClientPackage(join(folder, 'node_modules/@bursar/client'))]);
});
after(async () => {
  await server.dispose();
  await rm(folder, { recursive: true });
});

test('the first job of the README runs with the built package, on the oldest Node', async () => {
  const page = readFileSync(join(clientFolder, 'README.md'), 'utf8');
  await mkdir(join(folder, 'job'));
  await writeFile(join(folder, 'job/run.sh'), '#!/bin/sh\necho "hello, $1"\n');
  await writeFile(join(folder, 'example.mjs'), findExample('ts', 'bursar.submit', server.url, page));
  const env = { ...process.env, TOKEN: server.userToken };
  const { stdout } = await run(oldestNode, ['example.mjs'], { cwd: folder, env });
  assert.match(stdout, /^hello, world\nSUCCESSFUL \[/);
});

test('the types of the package need neither Node nor the sources', async () => {
  const program = `
import { ApiError, Bursar, type Job, type JobFile } from '@bursar/client';
export async function f(bursar: Bursar): Promise<[Job, JobFile[], string]> {
  const job = await bursar.submit({ hpc: 'a', command: 'b', input: new Blob([]) });
  for await (const event of bursar.events()) if (event.type === 'job.ended') break;
  const me = await bursar.api.getMe();
  // @ts-expect-error: there is no such member
  me.nothing;
  return [await job.wait(), await job.files(), new ApiError(404, {}, new Headers()).code];
}
`;
  await writeFile(join(folder, 'program.ts'), program);
  const options = ['--strict', '--noEmit', '--module', 'esnext', '--moduleResolution', 'bundler', '--types', ''];
  const lib = ['--target', 'es2022', '--lib', 'es2022,dom,dom.iterable,esnext.typedarrays'];
  await run(process.execPath, [compiler, ...options, ...lib, 'program.ts'], { cwd: folder }).catch(
    ({ stdout, stderr }) => assert.fail(stdout + stderr),
  );
});

test('the client for browsers is small, and imports nothing of Node', async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: [join(clientFolder, 'src/index.ts')],
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    write: false,
    metafile: true,
  });
  const [bundle] = outputFiles;
  assert.ok(bundle);
  assert.deepEqual(
    Object.values(metafile.outputs).flatMap(({ imports }) => imports),
    [],
  );
  const size = gzipSync(bundle.contents, { level: 9 }).length;
  assert.ok(size < maxGzipBytes, `${size} bytes`);
  const bundled = await import(`data:text/javascript;base64,${Buffer.from(bundle.contents).toString('base64')}`);
  const me = await new bundled.Bursar({ url: server.url, token: server.userToken }).api.getMe();
  assert.equal(me.user, '301330');
});

test('without a token a change says that a script of the page made it', async () => {
  const seen: IncomingHttpHeaders[] = [];
  const site = createServer((request, response) => {
    seen.push(request.headers);
    response.end('{}');
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => site.once('listening', resolve));
  const { port } = site.address() as { port: number };
  const { Bursar } = await import(pathToFileURL(join(folder, 'node_modules/@bursar/client/index.js')).href);
  const bursar = new Bursar({ url: `http://127.0.0.1:${port}/` });
  await bursar.api.getMe();
  await bursar.api.signOut();
  assert.deepEqual(
    seen.map((headers) => [headers['x-bursar-request'], headers.authorization]),
    [
      [undefined, undefined],
      ['1', undefined],
    ],
  );
  site.closeAllConnections();
  site.close();
});
