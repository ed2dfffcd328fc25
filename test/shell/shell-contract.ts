import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import type { RunOptions, Shell } from '../../src/shell/shell.ts';
import { until } from '../support/until.ts';

export interface ShellHarness {
  shell: Shell;
  close(): Promise<void>;
}

/** Ample limits for whatever a test is not about. */
export const ample = (changes: Partial<RunOptions> = {}): RunOptions => ({
  signal: new AbortController().signal,
  timeoutMs: 20_000,
  maxOutputBytes: 10_000_000,
  ...changes,
});

/** Set in the environment that the harness gives to its shell. */
export const variable = { name: 'BURSAR_TEST', value: `it's $HOME; \`id\` "ü"` };

const transient = { name: 'BursarError', code: 'unavailable', transient: true };

/** The guarantees of `Shell`, for any shell that runs things on this host. */
export function shellContract(name: string, makeHarness: () => Promise<ShellHarness>): void {
  describe(`${name} keeps the contract of shells`, () => {
    let harness: ShellHarness;
    before(async () => {
      harness = await makeHarness();
    });
    after(() => harness.close());
    const run = (argv: string[], changes: Partial<RunOptions> = {}) => harness.shell.run(argv, ample(changes));
    const sh = (script: string, changes: Partial<RunOptions> = {}) => run(['sh', '-c', script], changes);
    const stream = (argv: string[], signal = ample().signal) => harness.shell.stream(argv, { signal });

    test('arguments arrive as they are, whatever is in them', async () => {
      const words = [
        '',
        ' ',
        'a b',
        "it's",
        '"',
        '\n',
        'a\nb\n',
        '$HOME',
        '$(id)',
        '`id`',
        '\\',
        '\\n',
        '*',
        '~',
        '!!',
        ';',
        '&',
        '|',
        '<',
        '#',
        '-n',
        '--',
        'ünïcödé 🦀',
        '\t',
        '\r',
        '\x01\x7f',
        "'\\''",
        'A=b',
      ];
      const { code, stdout } = await run(['printf', '%s\\0', ...words]);
      assert.equal(code, 0);
      assert.deepEqual(stdout.split('\0').slice(0, -1), words);
    });

    test('any arguments arrive as they are', async () => {
      const word = fc.string({ unit: 'binary' }).filter((each) => !each.includes('\0'));
      await fc.assert(
        fc.asyncProperty(fc.array(word, { minLength: 1 }), async (words) => {
          const { stdout } = await run(['printf', '%s\\0', ...words]);
          assert.deepEqual(stdout.split('\0').slice(0, -1), words);
        }),
        { numRuns: 20 },
      );
    });

    test('codes are those of the command, 255 included', async () => {
      for (const code of [0, 1, 2, 3, 126, 127, 128, 193, 254, 255]) {
        assert.deepEqual(await sh(`echo out; echo err >&2; exit ${code}`), { code, stdout: 'out\n', stderr: 'err\n' });
      }
    });

    test('a command that a signal ended has no code', async () => {
      assert.equal((await sh('kill -9 $$')).code, null);
      assert.equal((await sh('kill -15 $$')).code, null);
    });

    test('a name that the shell knows itself is a program all the same', async () => {
      assert.match((await run(['printf', '%q', 'a b'])).stdout, /^('a b'|a\\ b)$/); // of coreutils: dash has no %q
      await assert.rejects(run(['./-c']), transient);
    });

    test('a program that does not exist says so', async () => {
      for (const program of ['no-such-program', '/no/such/program']) {
        await assert.rejects(run([program]), {
          ...transient,
          message: /no-such-program on .*no such program|program on .*no such program/,
        });
      }
    });

    test('output without a last newline, binary noise and none at all are kept', async () => {
      assert.deepEqual(await sh('printf a; printf b >&2'), { code: 0, stdout: 'a', stderr: 'b' });
      assert.deepEqual(await run(['true']), { code: 0, stdout: '', stderr: '' });
      assert.equal((await sh(String.raw`printf '\001\n\n'`)).stdout, '\x01\n\n');
    });

    test('large output is complete', async () => {
      const { stdout } = await sh('seq 1 300000');
      assert.equal(stdout.length, 1_988_895);
      assert.equal(stdout.endsWith('\n300000\n'), true);
    });

    test('input is nothing, text, bytes or a stream', async () => {
      const content = randomBytes(3_000_000);
      assert.equal((await run(['cat'])).stdout, '');
      assert.equal((await run(['cat'], { stdin: 'zwölf\n' })).stdout, 'zwölf\n');
      assert.equal((await run(['wc', '-c'], { stdin: content })).stdout.trim(), '3000000');
      const pieces = Array.from({ length: 30 }, (_, i) => content.subarray(i * 100_000, (i + 1) * 100_000));
      const [viaStream, viaBytes] = await Promise.all([
        run(['sha256sum'], { stdin: Readable.from(pieces) }),
        run(['sha256sum'], { stdin: content }),
      ]);
      assert.equal(viaStream.stdout, viaBytes.stdout);
    });

    test('a command need not read its input', async () => {
      const stdin = Readable.from([randomBytes(5_000_000)]);
      assert.equal((await run(['true'], { stdin: randomBytes(5_000_000) })).code, 0);
      assert.equal((await run(['true'], { stdin })).code, 0);
      assert.equal(stdin.destroyed, true);
    });

    test('input that breaks off ends the command, and is not taken for its end', async () => {
      const file = scratch();
      async function* source() {
        yield 'half';
        await sleep(50);
        throw new Error('broken');
      }
      const script = `cat > /dev/null; touch ${file}`;
      await assert.rejects(sh(script, { stdin: Readable.from(source()) }), {
        ...transient,
        message: /input.*broke off/,
      });
      const destroyed = Readable.from(['x']);
      destroyed.destroy();
      await assert.rejects(sh(script, { stdin: destroyed }), transient);
      await sleep(100);
      await assert.rejects(readFile(file), { code: 'ENOENT' });
    });

    test('the time limit kills the command and all it has started', async () => {
      const started = performance.now();
      await killed(async (script) => {
        await assert.rejects(sh(script, { timeoutMs: 700 }), {
          ...transient,
          message: /within 0\.[67] s/,
        });
      });
      assert.equal(performance.now() - started < 8000, true);
    });

    test('an abort kills the command and all it has started', async () => {
      await killed(async (script, hasStarted) => {
        const controller = new AbortController();
        const end = assert.rejects(sh(script, { signal: controller.signal }), { ...transient, message: /interrupted/ });
        await hasStarted();
        controller.abort();
        await end;
      });
      await assert.rejects(sh('true', { signal: AbortSignal.abort() }), transient);
    });

    test('an abort right after the start leaves nothing running', async () => {
      const tag = `4${String(Date.now()).slice(-7)}`;
      for (let delayMs = 0; delayMs < 20; delayMs += 1) {
        const controller = new AbortController();
        const end = assert.rejects(run(['sleep', tag], { signal: controller.signal }), transient);
        await sleep(delayMs);
        controller.abort();
        await end;
      }
      const { stdout } = await run(['ps', '-A', '-o', 'args=']);
      assert.equal(stdout.includes(`sleep ${tag}`), false);
    });

    test('output beyond the limit ends the command, on stdout and on stderr', async () => {
      for (const to of ['', '>&2']) {
        await killed(async (script) => {
          const flood = `${script.replace(/sleep \d+$/, '')} yes ${to}`;
          await assert.rejects(sh(flood, { maxOutputBytes: 1000 }), { ...transient, message: /wrote more than/ });
        });
      }
      assert.equal((await sh('printf 12345', { maxOutputBytes: 5 })).stdout, '12345');
      await assert.rejects(sh('printf 123456', { maxOutputBytes: 5 }), transient);
      await assert.rejects(sh('printf 123456 >&2', { maxOutputBytes: 5 }), transient);
    });

    test('a stream gives the output as it comes, and ends with the command', async () => {
      const file = scratch();
      const output = await stream([
        'sh',
        '-c',
        `echo one; until [ -e ${file} ]; do sleep 0.02; done; echo two; echo noise >&2`,
      ]);
      const pieces: string[] = [];
      for await (const piece of output) {
        pieces.push(String(piece));
        await writeFile(file, ''); // the command waits for this
      }
      await rm(file);
      assert.equal(pieces.join(''), 'one\ntwo\n');
      // What looks like the beginning of a mark is output as well.
      assert.equal(await text(await stream(['printf', 'bursar-'])), 'bursar-');
      assert.equal(await text(await stream(['true'])), '');
      assert.equal((await text(await stream(['seq', '1', '300000']))).length, 1_988_895);
    });

    test('a stream of a command that fails is destroyed, not ended', async () => {
      const consume = async (argv: string[]) => await text(await stream(argv));
      await assert.rejects(consume(['sh', '-c', 'echo half; exit 3']), { ...transient, message: /failed \(3\)/ });
      await assert.rejects(consume(['sh', '-c', 'echo half; kill -9 $$']), transient);
      await assert.rejects(consume(['no-such-program']), transient);
    });

    test('destroying a stream ends the command, and so does an abort', async () => {
      await killed(async (script, hasStarted) => {
        const output = await stream(['sh', '-c', script]);
        await hasStarted();
        output.destroy();
      });
      await killed(async (script, hasStarted) => {
        const controller = new AbortController();
        const output = await stream(['sh', '-c', script], controller.signal);
        const end = assert.rejects(text(output), transient);
        await hasStarted();
        controller.abort();
        await end;
      });
      await assert.rejects(stream(['true'], AbortSignal.abort()), transient);
    });

    test('the environment has what was given, and nothing of Bursar', async () => {
      process.env.SBATCH_ACCOUNT = 'leaked';
      process.env.BURSAR_SECRET = 'leaked';
      try {
        const { stdout } = await run(['env', '-0']);
        const variables = stdout.split('\0');
        assert.equal(variables.includes(`${variable.name}=${variable.value}`), true);
        assert.equal(
          variables.some((each) => each.endsWith('=leaked')),
          false,
        );
        for (const name of ['PATH', 'HOME', 'USER', 'LOGNAME']) assert.match(stdout, new RegExp(`(^|\0)${name}=`));
        assert.equal(await text(await stream(['printenv', variable.name])), `${variable.value}\n`);
      } finally {
        delete process.env.SBATCH_ACCOUNT;
        delete process.env.BURSAR_SECRET;
      }
    });

    test('many commands at a time keep to their own', async () => {
      const results = await Promise.all(Array.from({ length: 40 }, (_, i) => sh(`cat; exit ${i}`, { stdin: `${i}` })));
      for (const [i, { code, stdout }] of results.entries()) {
        assert.deepEqual({ code, stdout }, { code: i, stdout: `${i}` });
      }
    });
  });
}

const scratch = () => join(tmpdir(), `bursar-shell-${randomBytes(6).toString('hex')}`);

/** Gives out a script with a child of its own that notes both pids, and checks that both are soon gone afterwards. */
async function killed(body: (script: string, hasStarted: () => Promise<unknown>) => Promise<void>): Promise<void> {
  const file = scratch();
  const pids = () =>
    readFile(file, 'utf8').then(
      (content) => (content.endsWith('.\n') ? content : undefined),
      () => undefined,
    );
  const script = `sleep 300 >/dev/null 2>&1 & echo $$ $! . > ${file}; sleep 300`;
  try {
    await body(script, () => until('the command has started', pids));
    for (const pid of (await until('it has started', pids)).split(' ').slice(0, 2)) {
      await until(`process ${pid} is gone`, () => (isAlive(Number(pid)) ? undefined : true), 5);
    }
  } finally {
    await rm(file, { force: true });
  }
}

/** A dead process that nobody has waited for yet is not alive. */
function isAlive(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' });
  return stdout.trim() !== '' && !stdout.startsWith('Z');
}
