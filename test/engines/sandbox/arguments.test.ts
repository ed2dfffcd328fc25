import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isVisible, type SandboxOptions, sandboxArguments } from '../../../src/engines/sandbox/arguments.ts';

const directory = '/data/workspaces/JOB/files';
const options: SandboxOptions = {
  directory,
  temporaryFolder: `${directory}.tmp`,
  startDirectory: `${directory}/sub`,
  readOnly: [],
  hidden: [],
  network: true,
};

/** The position of an option with its operands. Fails if it is absent. */
function positionOf(args: string[], ...words: string[]): number {
  const position = args.findIndex((_, index) => words.every((word, offset) => args[index + offset] === word));
  assert.notEqual(position, -1, `no ${words.join(' ')} in ${args.join(' ')}`);
  return position;
}

const writablePaths = (args: string[]) => args.filter((_, index) => args[index - 2] === '--bind');

describe('sandboxArguments', () => {
  test('nothing but the folders of the job can be written', () => {
    const args = sandboxArguments(options);
    assert.deepEqual(writablePaths(args).toSorted(), ['/tmp', '/var/tmp', directory, `${directory}.tmp`].toSorted());
    const lastMount = Math.max(args.lastIndexOf('--bind'), args.lastIndexOf('--ro-bind-try'));
    assert.ok(positionOf(args, '--remount-ro', '/') > lastMount);
    // As root, /proc/sys changes the kernel.
    positionOf(args, '--ro-bind-try', '/proc/sys', '/proc/sys');
  });

  test('the job starts in its folder, in namespaces of its own, without capabilities, and ends with its parent', () => {
    const args = sandboxArguments(options);
    assert.deepEqual(args.slice(-3), ['--chdir', `${directory}/sub`, '--']);
    for (const option of ['--unshare-pid', '--unshare-ipc', '--die-with-parent']) positionOf(args, option);
    positionOf(args, '--cap-drop', 'ALL');
    assert.ok(!args.includes('--cap-add'));
  });

  test('the network is closed only if that is asked for', () => {
    assert.ok(!sandboxArguments(options).includes('--unshare-net'));
    assert.ok(sandboxArguments({ ...options, network: false }).includes('--unshare-net'));
  });

  test('hidden paths are covered only where they would be visible, files by an empty file', () => {
    const args = sandboxArguments({
      ...options,
      readOnly: ['/opt'],
      hidden: [
        { path: '/opt/bursar/data', kind: 'folder' },
        { path: '/etc/shadow', kind: 'file' },
        { path: '/root', kind: 'folder' },
      ],
    });
    const covered = positionOf(args, '--tmpfs', '/opt/bursar/data');
    assert.ok(covered > positionOf(args, '--ro-bind-try', '/opt', '/opt'));
    assert.ok(positionOf(args, '--remount-ro', '/opt/bursar/data') > covered);
    positionOf(args, '--ro-bind', '/dev/null', '/etc/shadow');
    assert.ok(!args.includes('/root'));
  });

  test('a readable folder inside a hidden one is mounted after it, whatever the order of the configuration', () => {
    const args = sandboxArguments({
      ...options,
      readOnly: ['/home/bursar/modules', '/home'],
      hidden: [{ path: '/home/bursar', kind: 'folder' }],
    });
    const positions = [
      positionOf(args, '--ro-bind-try', '/home', '/home'),
      positionOf(args, '--tmpfs', '/home/bursar'),
      positionOf(args, '--ro-bind-try', '/home/bursar/modules', '/home/bursar/modules'),
    ];
    assert.deepEqual(
      positions,
      positions.toSorted((a, b) => a - b),
    );
  });

  test('a hidden path stays hidden although it is listed as readable', () => {
    const args = sandboxArguments({
      ...options,
      readOnly: ['/srv/data'],
      hidden: [{ path: '/srv/data', kind: 'folder' }],
    });
    assert.ok(positionOf(args, '--tmpfs', '/srv/data') > positionOf(args, '--ro-bind-try', '/srv/data', '/srv/data'));
  });

  test('another account gets no more than the right to become that account', () => {
    const args = sandboxArguments({ ...options, account: { uid: 1001, gid: 1002 } });
    assert.deepEqual(
      args.filter((_, index) => args[index - 1] === '--cap-add'),
      ['CAP_SETUID', 'CAP_SETGID'],
    );
    const command = ['--', 'setpriv', '--reuid=1001', '--regid=1002', '--clear-groups', '--inh-caps=-all', '--'];
    const start = args.indexOf('setpriv') - 1;
    assert.deepEqual(args.slice(start, start + command.length), command);
    assert.equal(args.at(-1), `${directory}/sub`);
    assert.ok(!args.includes('--chdir'), 'root without capabilities cannot enter the folder');
  });
});

describe('isVisible', () => {
  const readOnly = ['/opt', '/home/bursar/modules'];
  const hidden = [
    { path: '/opt/bursar', kind: 'folder' as const },
    { path: '/home/bursar', kind: 'folder' as const },
  ];
  const cases = {
    '/usr/bin/env': true,
    '/opt/tool/bin/run': true,
    '/opt/bursar/data/bursar.db': false,
    '/home/bursar/.ssh/id_ed25519': false,
    '/home/bursar/modules/gcc': true,
    '/optional/run': false,
    '/': false,
  };
  for (const [path, expected] of Object.entries(cases)) {
    test(`${path} is ${expected ? 'visible' : 'hidden'}`, () =>
      assert.equal(isVisible(path, { readOnly, hidden }), expected));
  }
});
