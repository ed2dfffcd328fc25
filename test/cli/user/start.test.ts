import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build, type Metafile } from 'esbuild';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** The packages that the server's own code loads. */
const external = ['better-sqlite3', 'pg-native', 'light-my-request', '@fastify/fast-json-stringify-compiler'];

async function bundle(entryPoint: string): Promise<Metafile['outputs']> {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [entryPoint],
    bundle: true,
    splitting: true,
    platform: 'node',
    format: 'esm',
    outdir: 'unused',
    write: false,
    metafile: true,
    external,
  });
  return metafile.outputs;
}

/** The source files that are loaded before the first dynamic import. */
function loadedAtStart(outputs: Metafile['outputs'], name: string): string[] {
  const reached = new Set<string>();
  const visit = (path: string) => {
    if (reached.has(path) || outputs[path] === undefined) return;
    reached.add(path);
    for (const { kind, path: imported } of outputs[path].imports) if (kind === 'import-statement') visit(imported);
  };
  visit(`unused/${name}`);
  return [...reached].flatMap((path) => Object.keys(outputs[path]?.inputs ?? {}));
}

const packageOf = (path: string) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1];

describe('the start of the command line', () => {
  test('loads the definitions of the commands, and neither the server nor the client', async () => {
    const files = loadedAtStart(await bundle('src/cli/program.ts'), 'program.js');
    assert.deepEqual(new Set(files.map(packageOf).filter(Boolean)), new Set(['commander']));
    const expected =
      /^(package\.json|src\/(cli|domain)\/|src\/files\/file-system-errors\.ts|node_modules\/commander\/)/;
    assert.deepEqual(
      files.filter((file) => !expected.test(file)),
      [],
    );
  });

  test("needs no part of the server for a users' command", async () => {
    const isOfUsers =
      /^src\/(cli|domain|contract)\/|^src\/files\/(zip\/|file-system-errors)|^src\/engines\/(command-languages|[^/]+\/[^/]+-language)\.ts$|^(?!src\/)/;
    const outputs = await bundle('src/cli/user-program.ts');
    const files = Object.values(outputs).flatMap(({ inputs }) => Object.keys(inputs));
    assert.deepEqual(
      files.filter((file) => !isOfUsers.test(file)),
      [],
    );
    const packages = new Set(files.map(packageOf).filter(Boolean));
    for (const name of ['fastify', 'kysely', 'pino', 'ajv']) assert.ok(!packages.has(name), name);
  });
});
