import assert from 'node:assert/strict';
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
import { type ListedProcess, listProcesses } from '../support/process-list.ts';
import { until } from '../support/until.ts';

export interface ShellHarness {
  shell: Shell;
  close(): Promise<void>;
}

/** Limits that a test does not reach unless it overrides them. */
export const generousLimits = (overrides: Partial<RunOptions> = {}): RunOptions => ({
  signal: new AbortController().signal,
  timeoutMs: 120_000,
  maxOutputBytes: 10_000_000,
  ...overrides,
});

/** The harness sets this variable in the environment of its shell. */
export const variable = { name: 'BURSAR_TEST', value: `it's $HOME; \`id\` "ü"` };

const transient = { name: 'BursarError', code: 'unavailable', transient: true };

/** Tests the guarantees of `Shell`, for every shell that runs commands on this host. */
export function shellContract(name: string, makeHarness: () => Promise<ShellHarness>): void {
  describe(`${name} meets the Shell contract`, () => {
    let harness: ShellHarness;
    before(async () => {
      harness = await makeHarness();
    });
    after(() => harness.close());
    const run = (argv: string[], options: Partial<RunOptions> = {}) => harness.shell.run(argv, generousLimits(options));
    const sh = (script: string, options: Partial<RunOptions> = {}) => run(['sh', '-c', script], options);
    const stream = (argv: string[], signal = generousLimits().signal) => harness.shell.stream(argv, { signal });

    test('passes arguments with special characters unchanged', async () => {
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

    test('passes random arguments unchanged', async () => {
      const word = fc.string({ unit: 'binary' }).filter((text) => !text.includes('\0'));
      await fc.assert(
        fc.asyncProperty(fc.array(word, { minLength: 1 }), async (words) => {
          const { stdout } = await run(['printf', '%s\\0', ...words]);
          assert.deepEqual(stdout.split('\0').slice(0, -1), words);
        }),
        { numRuns: 20 },
      );
    });

    test('returns the exit code of the command, including 255', async () => {
      for (const code of [0, 1, 2, 3, 126, 127, 128, 193, 254, 255]) {
        assert.deepEqual(await sh(`echo out; echo err >&2; exit ${code}`), { code, stdout: 'out\n', stderr: 'err\n' });
      }
    });

    test('returns no exit code for a command that was killed by a signal', async () => {
      assert.equal((await sh('kill -9 $$')).code, null);
      assert.equal((await sh('kill -15 $$')).code, null);
    });

    test('runs a program, not the shell built-in of the same name', async () => {
      assert.match((await run(['printf', '%q', 'a b'])).stdout, /^('a b'|a\\ b)$/); // from coreutils: the printf of dash has no %q
      await assert.rejects(run(['./-c']), transient);
    });

    test('reports a program that does not exist', async () => {
      for (const program of ['no-such-program', '/no/such/program']) {
        await assert.rejects(run([program]), {
          ...transient,
          message: /no-such-program on .*no such program|program on .*no such program/,
        });
      }
    });

    test('returns empty output, control characters and output without a final newline unchanged', async () => {
      assert.deepEqual(await sh('printf a; printf b >&2'), { code: 0, stdout: 'a', stderr: 'b' });
      assert.deepEqual(await run(['true']), { code: 0, stdout: '', stderr: '' });
      assert.equal((await sh(String.raw`printf '\001\n\n'`)).stdout, '\x01\n\n');
    });

    test('returns large output completely', async () => {
      const { stdout } = await sh('seq 1 300000');
      assert.equal(stdout.length, 1_988_895);
      assert.equal(stdout.endsWith('\n300000\n'), true);
    });

    test('accepts no input, text, bytes or a stream', async () => {
      const content = randomBytes(3_000_000);
      assert.equal((await run(['cat'])).stdout, '');
      assert.equal((await run(['cat'], { stdin: 'zwölf\n' })).stdout, 'zwölf\n');
      assert.equal((await run(['wc', '-c'], { stdin: content })).stdout.trim(), '3000000');
      const chunks = Array.from({ length: 30 }, (_, i) => content.subarray(i * 100_000, (i + 1) * 100_000));
      const [viaStream, viaBytes] = await Promise.all([
        run(['sha256sum'], { stdin: Readable.from(chunks) }),
        run(['sha256sum'], { stdin: content }),
      ]);
      assert.equal(viaStream.stdout, viaBytes.stdout);
    });

    test('succeeds if the command does not read its input', async () => {
      const stdin = Readable.from([randomBytes(5_000_000)]);
      assert.equal((await run(['true'], { stdin: randomBytes(5_000_000) })).code, 0);
      assert.equal((await run(['true'], { stdin })).code, 0);
      assert.equal(stdin.destroyed, true);
    });

    test('kills the command if its input fails, instead of ending the input', async () => {
      const file = temporaryPath();
      async function* source() {
        yield 'half';
        await sleep(50);
        throw new Error('broken');
      }
      const script = `cat > /dev/null; touch ${file}`;
      await assert.rejects(sh(script, { stdin: Readable.from(source()) }), {
        ...transient,
        message: /input.*could not be read/,
      });
      const destroyed = Readable.from(['x']);
      destroyed.destroy();
      await assert.rejects(sh(script, { stdin: destroyed }), transient);
      await sleep(100);
      await assert.rejects(readFile(file), { code: 'ENOENT' });
    });

    test('kills the command and its children at the timeout', async () => {
      await expectKilled(async (script, _, isStarted) => {
        // On a busy machine a short timeout passes before the command has started.
        for (let timeoutMs = 1000; !(await isStarted()); timeoutMs *= 3) {
          await assert.rejects(sh(script, { timeoutMs }), { ...transient, message: /did not answer within [\d.]+ s/ });
        }
      });
    });

    test('kills the command and its children when aborted', async () => {
      await expectKilled(async (script, hasStarted) => {
        const controller = new AbortController();
        const end = assert.rejects(sh(script, { signal: controller.signal }), { ...transient, message: /interrupted/ });
        await hasStarted();
        controller.abort();
        await end;
      });
      await assert.rejects(sh('true', { signal: AbortSignal.abort() }), transient);
    });

    test('leaves nothing running when aborted right after the start', async () => {
      const tag = `4${String(Date.now()).slice(-7)}`;
      for (let delayMs = 0; delayMs < 20; delayMs += 1) {
        const controller = new AbortController();
        const end = assert.rejects(run(['sleep', tag], { signal: controller.signal }), transient);
        await sleep(delayMs);
        controller.abort();
        await end;
      }
      const isOne = ({ command }: ListedProcess) => command.includes(`sleep ${tag}`);
      await until('all commands are killed', () => !listProcesses().some(isOne) || undefined);
    });

    test('kills a command that writes more than the limit to stdout or to stderr', async () => {
      for (const redirection of ['', '>&2']) {
        await expectKilled(async (script) => {
          const flood = `${script.replace(/sleep \d+$/, '')} yes ${redirection}`;
          await assert.rejects(sh(flood, { maxOutputBytes: 1000 }), { ...transient, message: /wrote more than/ });
        });
      }
      assert.equal((await sh('printf 12345', { maxOutputBytes: 5 })).stdout, '12345');
      await assert.rejects(sh('printf 123456', { maxOutputBytes: 5 }), transient);
      await assert.rejects(sh('printf 123456 >&2', { maxOutputBytes: 5 }), transient);
    });

    test('streams output as it is written, until the command ends', async () => {
      const file = temporaryPath();
      const output = await stream([
        'sh',
        '-c',
        `echo one; until [ -e ${file} ]; do sleep 0.02; done; echo two; echo noise >&2`,
      ]);
      const chunks: string[] = [];
      for await (const chunk of output) {
        chunks.push(String(chunk));
        await writeFile(file, ''); // the command waits for this
      }
      await rm(file);
      assert.equal(chunks.join(''), 'one\ntwo\n');
      // Output that looks like the beginning of a marker is not dropped.
      assert.equal(await text(await stream(['printf', 'bursar-'])), 'bursar-');
      assert.equal(await text(await stream(['true'])), '');
      assert.equal((await text(await stream(['seq', '1', '300000']))).length, 1_988_895);
    });

    test('destroys the stream of a command that fails, instead of ending it', async () => {
      const consume = async (argv: string[]) => await text(await stream(argv));
      await assert.rejects(consume(['sh', '-c', 'echo half; exit 3']), { ...transient, message: /failed \(3\)/ });
      await assert.rejects(consume(['sh', '-c', 'echo half; kill -9 $$']), transient);
      await assert.rejects(consume(['no-such-program']), transient);
    });

    test('kills the command when its stream is destroyed or aborted', async () => {
      await expectKilled(async (script, hasStarted) => {
        const output = await stream(['sh', '-c', script]);
        await hasStarted();
        output.destroy();
      });
      await expectKilled(async (script, hasStarted) => {
        const controller = new AbortController();
        const output = await stream(['sh', '-c', script], controller.signal);
        const end = assert.rejects(text(output), transient);
        await hasStarted();
        controller.abort();
        await end;
      });
      await assert.rejects(stream(['true'], AbortSignal.abort()), transient);
    });

    test("sets the given environment variables, and none of Bursar's own", async () => {
      process.env.SBATCH_ACCOUNT = 'leaked';
      process.env.BURSAR_SECRET = 'leaked';
      try {
        const { stdout } = await run(['env', '-0']);
        const variables = stdout.split('\0');
        assert.equal(variables.includes(`${variable.name}=${variable.value}`), true);
        assert.equal(
          variables.some((variable) => variable.endsWith('=leaked')),
          false,
        );
        for (const name of ['PATH', 'HOME', 'USER', 'LOGNAME']) assert.match(stdout, new RegExp(`(^|\0)${name}=`));
        assert.equal(await text(await stream(['printenv', variable.name])), `${variable.value}\n`);
      } finally {
        delete process.env.SBATCH_ACCOUNT;
        delete process.env.BURSAR_SECRET;
      }
    });

    test('keeps the input and output of concurrent commands apart', async () => {
      const results = await Promise.all(Array.from({ length: 40 }, (_, i) => sh(`cat; exit ${i}`, { stdin: `${i}` })));
      for (const [i, { code, stdout }] of results.entries()) {
        assert.deepEqual({ code, stdout }, { code: i, stdout: `${i}` });
      }
    });
  });
}

const temporaryPath = () => join(tmpdir(), `bursar-shell-${randomBytes(6).toString('hex')}`);

/** Passes `body` a script that starts a child and writes both pids to a file. Then checks that both processes end soon. */
async function expectKilled(
  body: (script: string, hasStarted: () => Promise<unknown>, isStarted: () => Promise<boolean>) => Promise<void>,
): Promise<void> {
  const file = temporaryPath();
  const pids = () =>
    readFile(file, 'utf8').then(
      (content) => (content.endsWith('.\n') ? content : undefined),
      () => undefined,
    );
  const script = `sleep 300 >/dev/null 2>&1 & echo $$ $! . > ${file}; sleep 300`;
  try {
    await body(
      script,
      () => until('the command has started', pids),
      async () => (await pids()) !== undefined,
    );
    for (const pid of (await until('the command has started', pids)).split(' ').slice(0, 2)) {
      await until(`process ${pid} is gone`, () => (isAlive(Number(pid)) ? undefined : true));
    }
  } finally {
    await rm(file, { force: true });
  }
}

/** A zombie process is not alive. */
function isAlive(pid: number): boolean {
  return listProcesses().some((each) => each.pid === pid && each.state !== 'Z');
}
