import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse, stringify } from 'yaml';
import { bursar } from '../support/command-line.ts';

// Checking and showing the configuration that is in force.

let folder: string;
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-test-'));
});
after(() => rmSync(folder, { recursive: true, force: true }));

const shipped = () => parse(readFileSync(new URL('../../config/bursar.yaml', import.meta.url), 'utf8'));
let files = 0;

function fileOf(text: string): string {
  files += 1;
  const file = join(folder, `${files}.yaml`);
  writeFileSync(file, text);
  return file;
}

/** What `config check` says of the shipped configuration with something changed. */
function checkChanged(change: (config: ReturnType<typeof shipped>) => void) {
  const config = shipped();
  change(config);
  return bursar(['config', 'check'], { BURSAR_CONFIG: fileOf(stringify(config)) });
}

/** Asks only once, for all tests that look at the answer. */
function once<T>(ask: () => Promise<T>): () => Promise<T> {
  let answer: Promise<T> | undefined;
  return () => {
    answer ??= ask();
    return answer;
  };
}

describe('config', { concurrency: 3 }, () => {
  test('check: the shipped configuration is valid, exit code 0', async () => {
    const { code, stdout, stderr } = await bursar(['config', 'check']);
    assert.deepEqual([code, stderr], [0, '']);
    assert.match(stdout, /valid.*hpc_one, hpc_two/);
  });

  test('check: the least that a configuration can say is valid', async () => {
    const least = { systems: { mine: { kind: 'batch', projects: [{ name: 'p' }] } } };
    const { code, stderr } = await bursar(['config', 'check'], { BURSAR_CONFIG: fileOf(stringify(least)) });
    assert.equal(code, 0, stderr);
  });

  // What a schema finds is told all at once, and so is what only a look at the whole can find.
  const faults: [what: string, says: RegExp][] = [
    [
      'an unknown key suggests the most similar known key',
      /^ {2}server\.prot: is not a known key; did you mean port\?$/m,
    ],
    ['an unknown key at the top', /^ {2}sytems: .*\bsystems\?$/m],
    ['an unknown key deep inside', /^ {2}systems\.hpc_two\.projects\.1\.grant\.timeSecond: .*\btimeSeconds\?$/m],
    ['a wrong type', /^ {2}server\.port: must be integer$/m],
    ['a number out of bounds', /^ {2}systems\.hpc_one\.limits\.nodes: must be >= 1$/m],
    ['a wrong word', /^ {2}systems\.hpc_one\.charge: must be one of core, node, wall$/m],
    ['something left out', /^ {2}systems\.hpc_one: .*projects/m],
  ];
  const withFaults = once(() =>
    checkChanged((config) => {
      config.sytems = {};
      config.server = { prot: 80, port: 'http' };
      config.systems.hpc_one.limits.nodes = 0;
      config.systems.hpc_one.charge = 'cores';
      delete config.systems.hpc_one.projects;
      config.systems.hpc_two.projects[1].grant.timeSecond = 1;
    }),
  );
  const contradictions: [what: string, says: RegExp][] = [
    ['a default over its limit', /^ {2}systems\.hpc_one\.defaults\.nodes: .*limits\.nodes$/m],
    ['a project listed twice', /^ {2}systems\.hpc_two\.projects: proj_hpc_two_01 is listed twice$/m],
    ['tools on a batch system', /^ {2}systems\.hpc_one\.tools: /m],
    ['a placeholder of no parameter', /^ {2}systems\.hpc_two\.tools\.BASH\.command: \{script\} is not a parameter$/m],
    ['a tool system without tools', /^ {2}systems\.third\.tools: /m],
  ];
  const withContradictions = once(() =>
    checkChanged((config) => {
      config.systems.hpc_one.defaults.nodes = 65;
      config.systems.hpc_two.projects[1].name = 'proj_hpc_two_01';
      config.systems.hpc_one.tools = config.systems.hpc_two.tools;
      config.systems.hpc_two.tools.BASH = { command: ['bash', '{script}'] };
      config.systems.third = { kind: 'tool', projects: [{ name: 'p' }] };
    }),
  );
  for (const [list, check] of [
    [faults, withFaults],
    [contradictions, withContradictions],
  ] as const) {
    for (const [what, says] of list) {
      test(`check: ${what} is told where it is, with everything else that is wrong: exit code 3`, async () => {
        const { code, stdout, stderr } = await check();
        assert.deepEqual([code, stdout], [3, '']);
        assert.match(stderr, says);
        assert.doesNotMatch(stderr, /^\s+at /m, 'a stack trace');
      });
    }
  }

  for (const [what, text] of [
    ['that is no YAML', 'systems: [\n'],
    ['that is empty', ''],
    ['that is a word', 'systems\n'],
  ] as const) {
    test(`check: a file ${what}: exit code 3, and its name`, async () => {
      const file = fileOf(text);
      const { code, stdout, stderr } = await bursar(['config', 'check'], { BURSAR_CONFIG: file });
      assert.deepEqual([code, stdout], [3, '']);
      assert.ok(stderr.includes(file), stderr);
      assert.doesNotMatch(stderr, /^\s+at /m, 'a stack trace');
    });
  }

  test('check: a file that is not there: exit code 3, and its name', async () => {
    const { code, stderr } = await bursar(['config', 'check'], { BURSAR_CONFIG: join(folder, 'nowhere.yaml') });
    assert.equal(code, 3);
    assert.match(stderr, /Cannot read the configuration file .*nowhere\.yaml/);
  });

  test('check: the environment is checked too', async () => {
    for (const port of ['http', '70000']) {
      const { code, stderr } = await bursar(['config', 'check'], { BURSAR_PORT: port });
      assert.equal(code, 3, port);
      assert.match(stderr, /server\.port: /);
    }
  });

  test('check: an address other than loopback needs acceptJobsFromTheNetwork, on every local system', async () => {
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

  test('print and print --json show the same, with every default, and the environment laid over it', async () => {
    const settings = { BURSAR_PORT: '1234', BURSAR_DATA: '/somewhere' };
    const [yaml, json] = await Promise.all([
      bursar(['config', 'print'], settings),
      bursar(['config', 'print', '--json'], settings),
    ]);
    assert.deepEqual([yaml.code, json.code, yaml.stderr, json.stderr], [0, 0, '', '']);
    const shown = JSON.parse(json.stdout);
    assert.deepEqual(parse(yaml.stdout), shown);
    assert.deepEqual([shown.server.port, shown.server.host, shown.data], [1234, '127.0.0.1', '/somewhere']);
    assert.deepEqual([shown.log.level, shown.systems.hpc_one.engine.memoryMb], ['info', 4096]);
    assert.deepEqual(shown.systems.hpc_two.tools.BASH.command, ['bash', 'main.sh']);
  });

  for (const options of [[], ['--json']]) {
    test(`print ${options.join(' ')}: what it prints is itself a configuration, and the same one`, async () => {
      const { stdout } = await bursar(['config', 'print', ...options]);
      const settings = { BURSAR_CONFIG: fileOf(stdout) };
      const [check, again] = await Promise.all([
        bursar(['config', 'check'], settings),
        bursar(['config', 'print', ...options], settings),
      ]);
      assert.deepEqual([check.code, check.stderr], [0, '']);
      assert.equal(again.stdout, stdout);
    });
  }

  test('print: a configuration that is not valid is not printed: exit code 3', async () => {
    const { code, stdout } = await bursar(['config', 'print'], { BURSAR_CONFIG: fileOf('sytems: {}\n') });
    assert.deepEqual([code, stdout], [3, '']);
  });
});
