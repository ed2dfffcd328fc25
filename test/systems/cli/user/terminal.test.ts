import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Bursar, type Job } from '#client';
import { createCaller } from '../../../support/api.ts';
import { releaseJob, waitForGoScript, waitForStage } from '../../../support/jobs.ts';
import { startServer, type TestServer } from '../../../support/server.ts';
import { openTerminal, type Terminal } from '../../../support/terminal.ts';
import { until } from '../../../support/until.ts';

// The users' commands as a person sees them: keys are sent, and the screen of a real terminal is read.

const user = '303101';

describe('on a terminal', () => {
  let server: TestServer;
  let token: string;
  let home: string;
  let terminal: Terminal;
  let job: Job;

  const submit = async (line: string, title: string) =>
    (await new Bursar({ url: server.url, token }).submit({ hpc: 'hpc_one', command: line, title })).data;
  const env = (more: Record<string, string> = {}) => ({
    HOME: home,
    XDG_CONFIG_HOME: join(home, 'config'),
    BURSAR_URL: server.url,
    BURSAR_TOKEN: token,
    ...more,
  });

  before(async () => {
    server = await startServer();
    token = await server.token(user);
    home = mkdtempSync(join(tmpdir(), 'bursar-terminal-'));
    job = await submit(`touch $'name\\e]0;owned\\a'; ${waitForGoScript}`, `表題 ${'long '.repeat(30)}`);
    await waitForStage(createCaller(server.url, token), job, 'RUNNING');
    const files = join(server.data, 'workspaces', job.job_id, 'files');
    await until('the job has created its file', () => readdirSync(files).length > 0 || undefined);
    terminal = await openTerminal({ columns: 80, rows: 24, env: env() });
  });
  after(async () => {
    await terminal?.close();
    await server.dispose();
    rmSync(home, { recursive: true });
  });

  test('a list of jobs fits the width, and has colours and relative times', async () => {
    await terminal.type('bursar jobs');
    const screen = await terminal.waitFor(/RUNNING.*(now| ago)\n\$\n/);
    const lines = screen.split('\n').filter((line) => line !== '');
    assert.match(lines[1] ?? '', /^Job +Stage +Title +System +Project +Submitted/);
    const row = lines.find((line) => line.startsWith(job.job_id.slice(0, 8)));
    assert.match(row ?? '', /表題 long.*… +hpc_one +proj_.* +(now|\d+ (s|min) ago)$/);
    assert.equal(lines.filter((line) => line.includes('long')).length <= 1, true, 'the title is on one line');
    assert.ok((await terminal.colouredScreen()).includes('\u001b[33mRUNNING'));
  });

  test('an escape sequence in the name of a file is shown, not run', async () => {
    await terminal.type('clear; bursar job files @last');
    await terminal.waitFor(/name\\u001b\]0;owned\\u0007 +0 B/);
  });

  test('NO_COLOR turns the colours off', async () => {
    await terminal.type('clear; NO_COLOR=1 bursar jobs');
    await terminal.waitFor(/RUNNING.*\n\$\n/);
    assert.ok(!(await terminal.colouredScreen()).includes('\u001b[33m'));
  });

  test('jobs --watch redraws its own lines in place, also after a resize, until the jobs have ended', async () => {
    await terminal.type('clear; echo above; bursar jobs --watch; echo "exit code $?"');
    await terminal.waitFor(/above\nJob.*\n.*RUNNING/);
    const second = await submit(waitForGoScript, 'the second');
    await terminal.waitFor(/RUNNING.*the second/s);
    await terminal.resize(60, 20);
    // The title is shortened: the lines were drawn again for the new width.
    await terminal.waitFor(/^Job .*\n.*\n.*the s\w*…/m);
    for (const each of [job, second]) {
      await waitForStage(createCaller(server.url, token), each, 'RUNNING');
      releaseJob(server, each);
    }
    const screen = await terminal.waitFor(/exit code 0/);
    assert.equal(screen.match(/the s/g)?.length, 1, screen);
    assert.equal(screen.match(/^Job /gm)?.length, 1, screen);
    assert.match(await terminal.history(), /^above\n/m);
    assert.equal(screen.match(/SUCCESSFUL/g)?.length, 2, screen);
    await terminal.resize(80, 24);
  });

  test('Ctrl-C while a job is watched detaches, says how to come back, and exits with 101', async () => {
    const watched = await submit(`echo watched; ${waitForGoScript}`, 'watched');
    for (const command of ['job show --watch', 'job log -f', 'jobs --watch']) {
      const reference = command.startsWith('jobs') ? '' : '@last';
      await terminal.type(`clear; echo '# ${command}'; bursar ${command} ${reference}; echo "exit code $?"`);
      // The screen of the command before also has the title of the job.
      await terminal.waitFor(new RegExp(`^# ${command}\n[^]*watched`, 'm'));
      await terminal.press('C-c');
      const screen = await terminal.waitFor(/exit code \d+/);
      assert.match(screen, /runs? on\. Come back to (it|them):\n {2}bursar job/);
      assert.match(screen, /exit code 101/);
    }
    releaseJob(server, watched);
  });

  test('Ctrl-C while nothing is watched exits with 130', async () => {
    await terminal.type('clear; bursar events -f --after 0; echo "exit code $?"');
    await terminal.waitFor(/job\.accepted/);
    await terminal.press('C-c');
    await terminal.waitFor(/exit code 130/);
  });

  test('a log keeps its colours, and loses every other escape sequence', async () => {
    const noisy = await submit("printf '\\033[31mred\\033[0m \\033]0;owned\\007 \\033[2J end\\n'", 'noisy');
    await createCaller(server.url, token).waitUntilFinished(noisy);
    await terminal.type(`clear; bursar job log ${noisy.job_id}`);
    await terminal.waitFor(/red \\u001b\]0;owned\\u0007 \\u001b\[2J end/);
    assert.ok((await terminal.colouredScreen()).includes('\u001b[31mred'));
  });
});
