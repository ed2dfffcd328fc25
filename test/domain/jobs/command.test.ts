import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chooseStartFolder, findScriptPathError, startFileOf } from '../../../src/domain/jobs/command.ts';
import type { JobCommand } from '../../../src/domain/jobs/job.ts';

const script = (path: string): JobCommand => ({ kind: 'script', script: path, args: [] });
const line = (text: string): JobCommand => ({ kind: 'line', line: text });

test('the start file is the script or the entry of the tool, as a plain relative path', () => {
  for (const [path, normalized] of [
    ['run.sh', 'run.sh'],
    ['./run.sh', 'run.sh'],
    ['.//bin/./run.sh', 'bin/run.sh'],
    ['bin/../run.sh', 'run.sh'],
  ] as const) {
    assert.equal(startFileOf({ command: script(path), entry: null }), normalized);
    assert.equal(startFileOf({ command: { kind: 'argv', argv: ['bash', path] }, entry: path }), normalized);
    assert.equal(findScriptPathError(path), null);
  }
  assert.equal(startFileOf({ command: line('./run.sh'), entry: null }), null);
});

test('a script outside the zip has no valid path', () => {
  for (const path of ['/bin/true', '/run.sh']) assert.match(findScriptPathError(path) ?? '', /is an absolute path/);
  for (const path of ['..', '../run.sh', 'a/../../run.sh']) {
    assert.match(findScriptPathError(path) ?? '', /is outside the job's folder/);
  }
});

test('a plain command starts in the top folder, unless it names that folder', () => {
  for (const command of [
    './run.sh',
    'make all',
    'python main.py --name projects',
    'ls project.d my-project project_2',
  ]) {
    assert.equal(chooseStartFolder(line(command), 'project'), 'project', command);
  }
  for (const command of [
    'project/run.sh',
    'cd project && make',
    'ls "./project"',
    'python -m project',
    'tar cf x project',
  ]) {
    assert.equal(chooseStartFolder(line(command), 'project'), '', command);
  }
  assert.equal(chooseStartFolder({ kind: 'argv', argv: ['cat', 'project/in.txt'] }, 'project'), '');
  assert.equal(chooseStartFolder(line('./run.sh'), 'run'), 'run');
  for (const command of ['python3 main.py', 'ls; python3 main.py', 'ls && python3 main.py | cat'])
    assert.equal(chooseStartFolder(line(command), 'python3'), 'python3', command);
  assert.equal(chooseStartFolder(line('python3 python3/main.py'), 'python3'), '');
  assert.equal(chooseStartFolder(line('ls "my (new) project"'), 'my (new) project'), '');
  assert.equal(chooseStartFolder(line('ls größe'), 'größ'), 'größ');
});
