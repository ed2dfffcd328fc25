import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Command } from 'commander';
import { createProgram } from '../../../src/cli/run-program.ts';
import { addUserCommands } from '../../../src/cli/user/commands.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { createProgramFixture, type ProgramFixture } from './program-fixture.ts';

interface Leaf {
  path: string[];
  command: Command;
}

/** Every command that does something. A command with subcommands may be one. */
function listCommands(parent: Command, path: string[] = []): Leaf[] {
  return parent.commands
    .filter((command) => command.name() !== 'complete-words')
    .flatMap((command) => {
      const own = [...path, command.name()];
      const isGroup = command.commands.length > 0 && command.options.length === 0;
      return [...(isGroup ? [] : [{ path: own, command }]), ...listCommands(command, own)];
    });
}

describe('the help', () => {
  const program = createProgram('test', process);
  addUserCommands(program, process);
  const commands = listCommands(program);
  let bursar: ProgramFixture;
  before(() => {
    bursar = createProgramFixture('http://127.0.0.1:9', 'unused');
  });
  after(() => bursar.dispose());

  test('exists for every command, and every command can print JSON', async () => {
    assert.ok(commands.length > 70, String(commands.length));
    for (const { path, command } of commands) {
      const { code, stdout } = await bursar.run(...path, '--help');
      assert.equal(code, 0, path.join(' '));
      assert.ok(stdout.startsWith(`Usage: bursar ${path.join(' ')} `), stdout);
      assert.ok(
        command.options.some(({ long }) => long === '--json'),
        path.join(' '),
      );
    }
  });

  test('has examples with systems, projects and tools of the shipped configuration', async () => {
    const systems = Object.entries(shippedConfig().systems);
    const names = new Set(
      systems.flatMap(([name, { tools, projects }]) => [name, ...Object.keys(tools ?? {}), ...Object.keys(projects)]),
    );
    const used: string[] = [];
    for (const { path } of commands) {
      const { stdout } = await bursar.run(...path, '--help');
      for (const [, name = ''] of stdout.matchAll(/(?:--system|--project|--tool|system:|project:|tool:) ([\w/]+)/g))
        if (!/^(the|a|an|only|systems?|not|name)$/.test(name)) used.push(...name.split('/'));
    }
    assert.ok(used.includes('PYTHON3') && used.includes('hpc_one'), used.join(' '));
    assert.deepEqual(
      used.filter((name) => !names.has(name)),
      [],
    );
  });

  test('is named after an unknown option, a missing argument and an unknown command, with exit code 2', async () => {
    for (const { path, command } of commands) {
      // A missing option is reported first.
      const required = command.options.filter(({ mandatory }) => mandatory).flatMap(({ long }) => [long ?? '', '1']);
      const { code, stdout, stderr } = await bursar.run(...path, ...required, '--no-such-option');
      assert.deepEqual([code, stdout], [2, ''], path.join(' '));
      assert.match(stderr, /^error: unknown option '--no-such-option'\n.*--help/s, path.join(' '));
      if (command.registeredArguments[0]?.required)
        assert.match(
          (await bursar.run(...path, ...required)).stderr,
          /^error: missing required argument/,
          path.join(' '),
        );
    }
    const unknown = await bursar.run('jbos');
    assert.equal(unknown.code, 2);
    assert.match(unknown.stderr, /unknown command 'jbos'\n\(Did you mean (job|jobs|one of job, jobs)\?\)/);
  });
});
