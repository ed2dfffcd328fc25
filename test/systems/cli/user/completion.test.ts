import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createProgramFixture, type ProgramFixture } from '../../../cli/user/program-fixture.ts';
import { createCaller, type Job } from '../../../support/api.ts';
import { runFile } from '../../../support/command-line.ts';
import { bashZip } from '../../../support/jobs.ts';
import { oldestNode, userProgram } from '../../../support/oldest-node.ts';
import { startServer, type TestServer } from '../../../support/server.ts';
import { openTerminal } from '../../../support/terminal.ts';
import { until } from '../../../support/until.ts';

describe('completion', () => {
  let server: TestServer;
  let bursar: ProgramFixture;
  let job: Job;
  /** Of a shell in which `bursar` is the command line. */
  let env: Record<string, string>;
  before(async () => {
    server = await startServer();
    const me = createCaller(server.url, server.userToken);
    job = (await me.submit('/jobs/hpc_two/', { tool: 'BASH', title: 'completed' }, bashZip)).body;
    bursar = createProgramFixture(server.url, server.userToken);
    const bin = join(bursar.folder, 'bin');
    mkdirSync(bin);
    writeFileSync(join(bin, 'bursar'), `#!/bin/sh\nexec '${oldestNode}' '${userProgram}' "$@"\n`);
    chmodSync(join(bin, 'bursar'), 0o755);
    env = { ...bursar.env, PATH: `${bin}:${process.env.PATH}` };
  });
  after(async () => {
    bursar.dispose();
    await server.dispose();
  });

  const complete = async (...words: string[]) =>
    (await bursar.run('complete-words', '--', ...words)).stdout.split('\n').slice(0, -1);
  /** Repeats a completion that has no candidates: the server may have been slower than anybody waits for a key. */
  const completeFromServer = (...words: string[]) =>
    until(`candidates for ${words.join(' ')}`, async () => {
      const candidates = await complete(...words);
      return candidates.length > 0 ? candidates : undefined;
    });

  test('has commands, options, jobs, systems, projects, tools and profiles', async () => {
    for (const [words, expected] of [
      [['webh'], ['webhooks']],
      [['job', 'res'], ['resubmit']],
      [['admin', 'job', 'canc'], ['cancel']],
      [['jobs', '--wa'], ['--watch']],
      [['submit', '--prof'], ['--profile']],
      [['job', 'show', 'bursar-'], [job.job_id]],
      [['job', 'log', '-f', '@'], ['@last']],
      [
        ['jobs', '--system', ''],
        ['hpc_one', 'hpc_two'],
      ],
      // As bash splits `--system=hpc_t`.
      [['jobs', '--system', '=', 'hpc_t'], ['hpc_two']],
      [
        ['jobs', '--system', '='],
        ['hpc_one', 'hpc_two'],
      ],
      [['systems', 'hpc_o'], ['hpc_one']],
      [['statement', 'hpc_one/'], ['hpc_one/proj_hpc_one_01']],
      [['submit', '.', '--project', 'proj_hpc_one'], ['proj_hpc_one_01']],
      [['submit', '--tool', 'py'], ['PYTHON3']],
    ] as const)
      assert.deepEqual(await completeFromServer(...words), expected, words.join(' '));
    for (const words of [['tokens', 'create', ''], ['complete']]) assert.deepEqual(await complete(...words), []);
    const commands = await complete('');
    assert.ok(commands.includes('submit') && !commands.includes('complete-words'), commands.join(' '));
  });

  test('is empty and silent if the server is away or the token is wrong', async () => {
    const away = createProgramFixture('http://127.0.0.1:9', 'bursar_wrong');
    const { code, stdout, stderr } = await away.run('complete-words', '--', 'job', 'show', '');
    away.dispose();
    assert.deepEqual([code, stdout, stderr], [0, '', '']);
    assert.equal((await bursar.run('completion', 'tcsh')).code, 2);
  });

  for (const [shell, start, load] of [
    ['bash', 'bash --norc --noprofile', 'source <(bursar completion bash)'],
    ['zsh', 'zsh -f', 'autoload -U compinit && compinit -u -D && source <(bursar completion zsh)'],
  ] as const)
    test(`of ${shell} completes a job when Tab is pressed`, async () => {
      const terminal = await openTerminal({ columns: 120, env });
      try {
        await terminal.type(`unset -f bursar; exec ${start}`);
        await terminal.type(`PS1='ready> '; ${load}; clear; echo loa''ded`);
        await terminal.waitFor(/^loaded$/m);
        await terminal.press('b', 'u', 'r', 's', 'a', 'r', 'Space', 'j', 'o', 'b', 'Space', 's', 'h', 'Tab');
        await terminal.waitFor(/> bursar job show/);
        await terminal.press('B', 'U', 'R');
        await until('the job is completed', async () => {
          // The x appears when the shell has finished, with or without a candidate.
          await terminal.press('Tab', 'x');
          const screen = await terminal.waitFor(/> bursar job show \S+ ?x$/m);
          if (screen.includes(`> bursar job show ${job.job_id} x`)) return true;
          assert.match(screen, /> bursar job show BURx$/m);
          await terminal.press('BSpace');
          return undefined;
        });
      } finally {
        await terminal.close();
      }
    });

  test('of fish completes a job, and the folder to submit', async () => {
    const lines = ['bursar job show BUR', 'bursar webh', `bursar submit ${bursar.folder}/b`];
    const script = `bursar completion fish | source; ${lines.map((line) => `complete -C "${line}"`).join('; ')}`;
    const stdout = await until('a job is completed', async () => {
      const result = await runFile('fish', ['--no-config', '-c', script], { env: { ...process.env, ...env } });
      return result.stdout.trimStart().startsWith('webhooks') ? undefined : result.stdout;
    });
    assert.equal(stdout, `${job.job_id}\nwebhooks\n${bursar.folder}/bin/\n`);
  });
});
