import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { parse, stringify } from 'yaml';
import { addOperatorCommands } from '../../../src/cli/operator/commands.ts';
import { createOperator } from '../../../src/cli/operator/operator.ts';
import { createProgram } from '../../../src/cli/run-program.ts';
import { addUserCommands } from '../../../src/cli/user/commands.ts';
import { runFile } from '../../support/command-line.ts';
import { startServer, type TestServer } from '../../support/server.ts';

const deployed = (name: string) => fileURLToPath(new URL(`../../../deploy/${name}`, import.meta.url));
const promtool = (...args: string[]) => runFile('promtool', args);

interface Rule {
  alert?: string;
  record?: string;
  expr: string;
  labels?: { severity?: string };
  annotations?: { summary?: string; description?: string; runbook?: string };
}

const { groups } = parse(readFileSync(deployed('prometheus/rules.yml'), 'utf8')) as { groups: { rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const alerts = rules.filter(({ alert }) => alert !== undefined);

interface Panel {
  id: number;
  type: string;
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: { expr: string }[];
}

const boardText = readFileSync(deployed('grafana/bursar.json'), 'utf8');
const board = JSON.parse(boardText) as { panels: Panel[]; templating: { list: { name: string }[] } };
const boardExpressions = board.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

/** The names of metric families in an expression or a definition. */
function familiesIn(text: string): string[] {
  const names = text.match(/\b(?:bursar|nodejs|process)_[a-z0-9_]+/g) ?? [];
  return names.map((name) => name.replace(/_(bucket|sum|count)$/, ''));
}

describe('the alerts', () => {
  test('are valid, and fire when they should and only then', async () => {
    await promtool('check', 'rules', deployed('prometheus/rules.yml'));
    await promtool('test', 'rules', deployed('prometheus/rules.test.yml'));
  });

  test('are all tested, and say what has happened and what to do', () => {
    const { tests } = parse(readFileSync(deployed('prometheus/rules.test.yml'), 'utf8')) as {
      tests: { promql_expr_test: { expr: string; exp_samples: unknown[] }[] }[];
    };
    const expectations = tests.flatMap((each) => each.promql_expr_test);
    for (const { alert = '', labels, annotations } of alerts) {
      const ofAlert = expectations.filter(({ expr }) => expr.includes(`"${alert}"`));
      assert.ok(
        ofAlert.some(({ exp_samples: samples }) => samples.length > 0),
        `${alert} fires in no test`,
      );
      assert.ok(
        ofAlert.some(({ exp_samples: samples }) => samples.length === 0),
        `${alert} is silent in no test`,
      );
      assert.match(labels?.severity ?? '', /^(critical|warning)$/, alert);
      for (const name of ['summary', 'description', 'runbook'] as const)
        assert.ok((annotations?.[name] ?? '').length > 20, `${alert} has no ${name}`);
    }
  });

  test('are in the documentation, with their severity', () => {
    const page = readFileSync(new URL('../../../docs/monitoring.md', import.meta.url), 'utf8');
    const rows = [...page.matchAll(/^\| `(Bursar\w+)` \| (\w+) \|/gm)].map(
      ([, alert, severity]) => `${alert} ${severity}`,
    );
    assert.deepEqual(
      rows,
      alerts.map(({ alert, labels }) => `${alert} ${labels?.severity}`),
    );
  });

  test('name only commands of bursar that exist', () => {
    const program = createProgram('', process);
    addUserCommands(program, process);
    addOperatorCommands(program, createOperator(process), 'test');
    const runbooks = alerts.map(({ annotations }) => annotations?.runbook ?? '').join('\n');
    const commands = [...runbooks.matchAll(/"bursar ([a-z][a-z -]*)/g)].map(([, words = '']) => words);
    assert.ok(commands.length > 10);
    for (const words of new Set(commands)) findCommand(program, words.trim().split(' '));
  });
});

/** Throws if the first words are no command, or an option is none of it. */
function findCommand(command: Command, [word = '', ...rest]: string[]): void {
  const child = command.commands.find((each) => each.name() === word);
  if (child !== undefined) {
    if (rest.length > 0) findCommand(child, rest);
    return;
  }
  assert.ok(command.commands.length === 0, `${command.name()} has no command ${word}`);
  const options = [word, ...rest].filter((each) => each.startsWith('--'));
  for (const option of options)
    assert.ok(
      command.options.some(({ long }) => long === option),
      `${command.name()} ${option}`,
    );
}

test('the sample configuration of Prometheus is valid', async () => {
  await promtool('check', 'config', '--syntax-only', deployed('prometheus/prometheus.yml'));
});

describe('the board', () => {
  test('has panels with ids of their own, which do not overlap', () => {
    const ids = board.panels.map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length);
    const cells = board.panels.flatMap(({ title, gridPos: { x, y, w, h } }) => {
      assert.ok(x + w <= 24, title);
      return Array.from({ length: w * h }, (_, n) => `${x + (n % w)},${y + Math.floor(n / w)}`);
    });
    assert.equal(new Set(cells).size, cells.length, 'two panels overlap');
    for (const { type, title, targets = [] } of board.panels) assert.equal(targets.length === 0, type === 'row', title);
  });

  test('has expressions that Prometheus can parse, and variables that it defines', async () => {
    const variables = new Set(board.templating.list.map(({ name }) => name));
    const isGrafana = (name: string) => name.startsWith('__');
    for (const [, name = ''] of boardText.matchAll(/\$\{?(\w+)/g))
      assert.ok(isGrafana(name) || variables.has(name), name);
    const expressions = boardExpressions.map((expr) => expr.replaceAll('$__rate_interval', '5m'));
    const file = join(mkdtempSync(join(tmpdir(), 'bursar-board-')), 'rules.yml');
    const records = expressions.map((expr, n) => ({ record: `panel:${n}`, expr }));
    writeFileSync(file, stringify({ groups: [{ name: 'board', rules: records }] }));
    await promtool('check', 'rules', file);
    rmSync(join(file, '..'), { recursive: true });
  });
});

describe('a server', () => {
  let server: TestServer;
  before(async () => {
    server = await startServer();
  });
  after(() => server.dispose());

  test('serves every metric of the alerts and of the board', async () => {
    const text = await (await fetch(`${server.url}/metrics`)).text();
    const served = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
    const named = new Set([...rules.flatMap(({ expr }) => familiesIn(expr)), ...familiesIn(boardText)]);
    assert.ok(named.size > 30, String(named.size));
    assert.deepEqual(
      [...named].filter((name) => !served.has(name)),
      [],
    );
  });
});
