import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { BursarError } from '../../../src/domain/errors.ts';
import type { JobRequest } from '../../../src/domain/jobs/job.ts';
import { parsePayload } from '../../../src/domain/jobs/payload.ts';
import type { HpcSystem } from '../../../src/domain/systems/system.ts';
import { batchSystem, plainTool, toolSystem } from '../example-systems.ts';

const parse = (payload: unknown, system: HpcSystem = batchSystem) => parsePayload(JSON.stringify(payload), system);

/** The fields that are found at fault, in the order in which they are told. */
function faults(payload: unknown, system: HpcSystem = batchSystem): string[] {
  return refusalOf(JSON.stringify(payload), system).fields.map((error) => error.field);
}

function refusalOf(text: string, system: HpcSystem = batchSystem): BursarError {
  try {
    parsePayload(text, system);
  } catch (error) {
    assert.ok(error instanceof BursarError, String(error));
    assert.equal(error.code, 'invalid_payload');
    return error;
  }
  assert.fail(`accepted: ${text}`);
}

describe('a Payload for a batch system', () => {
  test('as the interface shows it, every value a string', () => {
    const payload = {
      command: 'sbatch run.sh',
      node_number: '2',
      core_number: '6',
      runtime: '2.0',
      title: 'My title',
    };
    assert.deepEqual(parse(payload), {
      title: 'My title',
      nodes: 2,
      coresPerNode: 6,
      runtimeHours: 2,
      command: { kind: 'script', script: 'run.sh', args: [] },
      tool: null,
      entry: null,
    } satisfies JobRequest);
  });

  test('with numbers as numbers is the same', () => {
    const numbers = { command: 'true', node_number: 2, core_number: 6, runtime: 2 };
    const texts = { command: 'true', node_number: '2', core_number: '6', runtime: '2.0' };
    assert.deepEqual(parse(numbers), parse(texts));
  });

  test('with nothing but a command takes the defaults of the system', () => {
    assert.deepEqual(parse({ command: 'true' }), {
      title: '',
      nodes: 2,
      coresPerNode: 3,
      runtimeHours: 1.5,
      command: { kind: 'line', line: 'true' },
      tool: null,
      entry: null,
    } satisfies JobRequest);
  });

  test('with the most that the system allows, and with the least', () => {
    const most = { command: 'true', node_number: 64, core_number: 128, runtime: 48 };
    assert.equal(parse(most).runtimeHours, 48);
    assert.equal(parse({ command: 'true', node_number: '1', core_number: '+1', runtime: '.5' }).runtimeHours, 0.5);
  });

  test('with more than the system allows', () => {
    assert.deepEqual(faults({ command: 'true', node_number: 65 }), ['node_number']);
    assert.deepEqual(faults({ command: 'true', core_number: 129 }), ['core_number']);
    assert.deepEqual(faults({ command: 'true', runtime: 48.1 }), ['runtime']);
    assert.deepEqual(faults({ command: 'true', node_number: 65, core_number: 129, runtime: 49 }), [
      'node_number',
      'core_number',
      'runtime',
    ]);
  });

  test('without a command, and with none to speak of', () => {
    for (const payload of [{}, { command: '' }, { command: '  ' }, { command: null }, { command: 7 }]) {
      assert.deepEqual(faults(payload), ['command']);
    }
  });

  test('with fields that are not its own', () => {
    assert.deepEqual(faults({ command: 'true', tool: 'BASH' }), ['tool']);
    assert.deepEqual(faults({ command: 'true', colour: 'blue', Title: 'x' }), ['colour', 'Title']);
    for (const field of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'length']) {
      const [error] = refusalOf(`{"command": "true", "${field}": "x"}`).fields;
      assert.equal(error?.field, field);
    }
  });

  test('with values that lie on the prototype of an object is as if they were not there', () => {
    const refusal = refusalOf('{"__proto__": {"command": "true", "title": "x"}}');
    assert.deepEqual(refusal.fields.map((error) => error.field).sort(), ['__proto__', 'command']);
  });

  test('with the same field twice takes the last, as JSON does', () => {
    assert.equal(parsePayload('{"command": "true", "title": "a", "title": "b"}', batchSystem).title, 'b');
  });

  test('says at once everything that is wrong, in its message as well', () => {
    const refusal = refusalOf('{"node_number": 0, "runtime": "x", "colour": 1}');
    assert.deepEqual(
      refusal.fields.map((error) => error.field),
      ['node_number', 'runtime', 'colour', 'command'],
    );
    for (const { field, message } of refusal.fields) assert.ok(refusal.message.includes(`${field}: ${message}`));
  });

  test('that is not a JSON object', () => {
    for (const text of ['', ' ', 'x', '{', '[]', '[{}]', 'null', '1', '"x"', 'true', '{"a": 1}}', '\u0000']) {
      assert.equal(refusalOf(text).fields.length, 0);
    }
  });
});

describe('a Payload for a tool system', () => {
  const system = toolSystem({
    BASH: plainTool,
    SOLVER: {
      command: ['solve', '--steps={steps}', '{mesh}'],
      parameters: {
        steps: { type: 'integer', required: true, min: 1, max: 10 },
        mesh: { type: 'string', required: false },
      },
    },
  });

  test('names a tool, which brings its command and the file it starts from', () => {
    assert.deepEqual(parse({ tool: 'BASH', title: 'x' }, system), {
      title: 'x',
      nodes: 1,
      coresPerNode: 1,
      runtimeHours: 0.5,
      command: { kind: 'argv', argv: ['bash', 'main.sh'] },
      tool: 'BASH',
      entry: 'main.sh',
    } satisfies JobRequest);
  });

  test('is cut down to the longest runtime, as the interface shows', () => {
    assert.equal(parse({ tool: 'BASH', runtime: '2.0' }, system).runtimeHours, 0.5);
    assert.equal(parse({ tool: 'BASH', runtime: 1e300 }, system).runtimeHours, 0.5);
    assert.equal(parse({ tool: 'BASH', runtime: '0.25' }, system).runtimeHours, 0.25);
  });

  test('is not cut down from what is no number', () => {
    for (const runtime of ['1e999', 'Infinity', 0, -1, '', null]) {
      assert.deepEqual(faults({ tool: 'BASH', runtime }, system), ['runtime']);
    }
  });

  test('takes the parameters of its own tool, and of no other', () => {
    const { command } = parse({ tool: 'SOLVER', steps: '7', mesh: 'a b' }, system);
    assert.deepEqual(command, { kind: 'argv', argv: ['solve', '--steps=7', 'a b'] });
    assert.deepEqual(faults({ tool: 'BASH', steps: 7 }, system), ['steps']);
    assert.deepEqual(faults({ tool: 'SOLVER' }, system), ['steps']);
    assert.deepEqual(faults({ tool: 'SOLVER', steps: 11 }, system), ['steps']);
  });

  test('without a tool, or with one that is not there', () => {
    for (const tool of [undefined, '', ' ', 'bash', 'FORTRAN', '__proto__', 'constructor', null, 7, ['BASH']]) {
      assert.deepEqual(faults({ tool }, system), ['tool']);
    }
    assert.match(refusalOf('{"tool": "FORTRAN"}', system).message, /BASH, SOLVER/);
  });

  test('with a command', () => {
    assert.deepEqual(faults({ tool: 'BASH', command: 'true' }, system), ['command']);
    assert.deepEqual(faults({ command: 'true' }, system).sort(), ['command', 'tool']);
  });
});

describe('numbers', () => {
  const fields = ['node_number', 'core_number', 'runtime'];
  const wrong = [
    0,
    -1,
    '0',
    '-1',
    '-0',
    '1e999',
    'NaN',
    'Infinity',
    '-Infinity',
    '',
    ' ',
    ' 1',
    '1 ',
    '0x1',
    '1h',
    '1,0',
  ];

  test('that are none are refused in every field', () => {
    for (const field of fields) {
      for (const value of [...wrong, true, false, null, [], [1], {}, 'one', '+', '.', 'e1', '1e', '\uff11']) {
        assert.deepEqual(faults({ command: 'true', [field]: value }), [field], `${field}: ${JSON.stringify(value)}`);
      }
    }
  });

  test('that are not whole are refused where nodes and cores are counted', () => {
    for (const field of ['node_number', 'core_number']) {
      for (const value of [1.5, '1.5', '1.0', '1e0', '.5', 2 ** 53, '9'.repeat(16), 1e300]) {
        assert.deepEqual(faults({ command: 'true', [field]: value }), [field], `${field}: ${value}`);
      }
    }
  });

  test('are read from text as they are from JSON', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 64 }),
        fc.double({ min: 0.001, max: 48, noNaN: true }),
        (nodes, runtime) => {
          const texts = { command: 'true', node_number: String(nodes), runtime: String(runtime) };
          assert.deepEqual(parse(texts), parse({ command: 'true', node_number: nodes, runtime }));
          assert.equal(parse(texts).runtimeHours, runtime);
        },
      ),
    );
  });
});

describe('titles', () => {
  test('are kept as they are', () => {
    const title = fc.string({ unit: 'grapheme', maxLength: 100 }).filter((text) => text.length <= 256);
    fc.assert(
      fc.property(title, (written) => {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is refused
        fc.pre(!/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(written));
        assert.equal(parse({ command: 'true', title: written }).title, written);
      }),
    );
    assert.equal(parse({ command: 'true', title: 'x'.repeat(256) }).title.length, 256);
  });

  test('with control characters, or too long, or no text are refused', () => {
    const controls = [...Array(0x20).keys(), 0x7f, 0x80, 0x9f, 0x2028, 0x2029].map((code) => String.fromCharCode(code));
    for (const title of [...controls.map((char) => `a${char}b`), 'x'.repeat(257), 7, null, true, [], {}]) {
      assert.deepEqual(faults({ command: 'true', title }), ['title'], JSON.stringify(title));
    }
  });
});

describe('whatever is sent', () => {
  const systems = [batchSystem, toolSystem()];

  function assertSound(text: string, system: HpcSystem) {
    let request: JobRequest;
    try {
      request = parsePayload(text, system);
    } catch (error) {
      assert.ok(error instanceof BursarError && error.code === 'invalid_payload', String(error));
      assert.match(error.message, /\w/);
      return;
    }
    const { limits } = system;
    assert.ok(Number.isSafeInteger(request.nodes) && request.nodes >= 1 && request.nodes <= limits.nodes);
    assert.ok(Number.isSafeInteger(request.coresPerNode) && request.coresPerNode <= limits.coresPerNode);
    assert.ok(request.coresPerNode >= 1);
    assert.ok(request.runtimeHours > 0 && request.runtimeHours <= limits.runtimeHours);
    assert.ok(request.title.length <= 256);
  }

  test('is refused as a Payload, or becomes a request within the limits', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), fc.constantFrom(...systems), (text, system) => {
        assertSound(text, system);
      }),
    );
  });

  test('under names that are known', () => {
    const value = fc.oneof(
      fc.jsonValue(),
      fc.string(),
      fc.double().map(String),
      fc.integer({ min: -2, max: 200 }),
      fc.integer({ min: -2, max: 200 }).map(String),
    );
    const fields = ['command', 'tool', 'node_number', 'core_number', 'runtime', 'title'];
    const payload = fc.record(Object.fromEntries(fields.map((field) => [field, value])), { requiredKeys: [] });
    fc.assert(
      fc.property(payload, fc.constantFrom(...systems), (fieldsGiven, system) => {
        assertSound(JSON.stringify(fieldsGiven), system);
        const runs =
          system.kind === 'batch' ? { command: 'true', tool: undefined } : { tool: 'BASH', command: undefined };
        assertSound(JSON.stringify({ ...fieldsGiven, ...runs }), system);
      }),
      { numRuns: 1000 },
    );
  });
});
