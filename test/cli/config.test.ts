import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse, stringify } from 'yaml';
import { bursar } from '../support/program.ts';

let folder: string;
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-test-'));
});
after(() => rmSync(folder, { recursive: true, force: true }));

const shipped = () => parse(readFileSync(new URL('../../config/bursar.yaml', import.meta.url), 'utf8'));
let fileCount = 0;

function writeConfig(text: string): string {
  fileCount += 1;
  const file = join(folder, `${fileCount}.yaml`);
  writeFileSync(file, text);
  return file;
}

/** Runs `config check` on the shipped configuration after a change. */
function checkChanged(change: (config: ReturnType<typeof shipped>) => void) {
  const config = shipped();
  change(config);
  return bursar(['config', 'check'], { BURSAR_CONFIG: writeConfig(stringify(config)) });
}

/** Runs an asynchronous function at the first call only, and shares its result with all tests. */
function once<T>(run: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= run();
    return result;
  };
}

describe('bursar config', () => {
  test('check accepts the shipped configuration', async () => {
    const { code, stdout, stderr } = await bursar(['config', 'check']);
    assert.deepEqual([code, stderr], [0, '']);
    assert.match(stdout, /valid.*hpc_one, hpc_two/);
  });

  test('check accepts a minimal configuration', async () => {
    const minimal = { systems: { mine: { kind: 'batch', projects: [{ name: 'p' }] } } };
    const { code, stderr } = await bursar(['config', 'check'], { BURSAR_CONFIG: writeConfig(stringify(minimal)) });
    assert.equal(code, 0, stderr);
  });

  // All violations of the schema are reported together, and so are all contradictions between valid values.
  const schemaErrors: [mistake: string, message: RegExp][] = [
    [
      'an unknown key, with the most similar known key,',
      /^ {2}server\.prot: is not a known key; did you mean port\?$/m,
    ],
    ['an unknown top-level key', /^ {2}sytems: .*\bsystems\?$/m],
    ['an unknown nested key', /^ {2}systems\.hpc_two\.projects\.1\.grant\.timeSecond: .*\btimeSeconds\?$/m],
    ['a wrong type', /^ {2}server\.port: must be integer$/m],
    ['a number out of range', /^ {2}systems\.hpc_one\.limits\.nodes: must be >= 1$/m],
    ['a value that is not one of the allowed ones', /^ {2}systems\.hpc_one\.charge: must be one of core, node, wall$/m],
    ['a missing required key', /^ {2}systems\.hpc_one: .*projects/m],
  ];
  const checkSchemaErrors = once(() =>
    checkChanged((config) => {
      config.sytems = {};
      config.server = { prot: 80, port: 'http' };
      config.systems.hpc_one.limits.nodes = 0;
      config.systems.hpc_one.charge = 'cores';
      delete config.systems.hpc_one.projects;
      config.systems.hpc_two.projects[1].grant.timeSecond = 1;
    }),
  );
  const contradictions: [mistake: string, message: RegExp][] = [
    ['a default above its limit', /^ {2}systems\.hpc_one\.defaultRuntimeHours: .*limits\.runtimeHours$/m],
    ['a project listed twice', /^ {2}systems\.hpc_two\.projects: proj_hpc_two_01 is listed twice$/m],
    ['tools on a batch system', /^ {2}systems\.hpc_one\.tools: /m],
    [
      'a placeholder that is not a parameter',
      /^ {2}systems\.hpc_two\.tools\.BASH\.command: \{script\} is not a parameter$/m,
    ],
    ['a tool system without tools', /^ {2}systems\.third\.tools: /m],
  ];
  const checkContradictions = once(() =>
    checkChanged((config) => {
      config.systems.hpc_one.defaultRuntimeHours = 49;
      config.systems.hpc_two.projects[1].name = 'proj_hpc_two_01';
      config.systems.hpc_one.tools = config.systems.hpc_two.tools;
      config.systems.hpc_two.tools.BASH = { command: ['bash', '{script}'] };
      config.systems.third = { kind: 'tool', projects: [{ name: 'p' }] };
    }),
  );
  for (const [list, check] of [
    [schemaErrors, checkSchemaErrors],
    [contradictions, checkContradictions],
  ] as const) {
    for (const [mistake, message] of list) {
      test(`check reports ${mistake} at its path, together with all other errors, and exits with 3`, async () => {
        const { code, stdout, stderr } = await check();
        assert.deepEqual([code, stdout], [3, '']);
        assert.match(stderr, message);
        assert.doesNotMatch(stderr, /^\s+at /m, 'a stack trace');
      });
    }
  }

  for (const [description, text] of [
    ['that is not YAML', 'systems: [\n'],
    ['that is empty', ''],
    ['that is only a string', 'systems\n'],
  ] as const) {
    test(`check names a file ${description} and exits with 3`, async () => {
      const file = writeConfig(text);
      const { code, stdout, stderr } = await bursar(['config', 'check'], { BURSAR_CONFIG: file });
      assert.deepEqual([code, stdout], [3, '']);
      assert.ok(stderr.includes(file), stderr);
      assert.doesNotMatch(stderr, /^\s+at /m, 'a stack trace');
    });
  }

  test('check names a file that does not exist and exits with 3', async () => {
    const { code, stderr } = await bursar(['config', 'check'], { BURSAR_CONFIG: join(folder, 'nowhere.yaml') });
    assert.equal(code, 3);
    assert.match(stderr, /Cannot read the configuration file .*nowhere\.yaml/);
  });

  test('check validates the environment variables too', async () => {
    for (const port of ['http', '70000']) {
      const { code, stderr } = await bursar(['config', 'check'], { BURSAR_PORT: port });
      assert.equal(code, 3, port);
      assert.match(stderr, /^BURSAR_PORT is [^\n]*\n$/);
    }
  });

  test('check requires acceptJobsFromTheNetwork on every local system if the host is not loopback', async () => {
    for (const host of ['0.0.0.0', 'example.org']) {
      const { code, stderr } = await bursar(['config', 'check'], { BURSAR_HOST: host });
      assert.equal(code, 3, host);
      assert.match(stderr, /systems\.hpc_one\.engine\.acceptJobsFromTheNetwork: must be true/);
      assert.match(stderr, /systems\.hpc_two\.engine\.acceptJobsFromTheNetwork: must be true/);
    }
    for (const host of ['::1', 'localhost']) {
      assert.equal((await bursar(['config', 'check'], { BURSAR_HOST: host })).code, 0, host);
    }
  });

  test('print and print --json print the same values, with all defaults and the environment applied', async () => {
    const env = { BURSAR_PORT: '1234', BURSAR_DATA: '/somewhere' };
    const [yaml, json] = await Promise.all([
      bursar(['config', 'print'], env),
      bursar(['config', 'print', '--json'], env),
    ]);
    assert.deepEqual([yaml.code, json.code, yaml.stderr, json.stderr], [0, 0, '', '']);
    const printed = JSON.parse(json.stdout);
    assert.deepEqual(parse(yaml.stdout), printed);
    assert.deepEqual([printed.server.port, printed.server.host, printed.data], [1234, '127.0.0.1', '/somewhere']);
    assert.deepEqual([printed.log.level, printed.systems.hpc_one.engine.memoryMb], ['info', 4096]);
    assert.deepEqual(printed.systems.hpc_two.tools.BASH.command, ['bash', 'main.sh', '{arguments}']);
  });

  for (const options of [[], ['--json']]) {
    test(`${['print', ...options].join(' ')} prints a valid configuration with the same content`, async () => {
      const { stdout } = await bursar(['config', 'print', ...options]);
      const env = { BURSAR_CONFIG: writeConfig(stdout) };
      const [check, reprinted] = await Promise.all([
        bursar(['config', 'check'], env),
        bursar(['config', 'print', ...options], env),
      ]);
      assert.deepEqual([check.code, check.stderr], [0, '']);
      assert.equal(reprinted.stdout, stdout);
    });
  }

  test('print does not print an invalid configuration and exits with 3', async () => {
    const { code, stdout } = await bursar(['config', 'print'], { BURSAR_CONFIG: writeConfig('sytems: {}\n') });
    assert.deepEqual([code, stdout], [3, '']);
  });
});
