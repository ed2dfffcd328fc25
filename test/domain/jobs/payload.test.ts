import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { BursarError } from '../../../src/domain/errors.ts';
import type { JobRequest } from '../../../src/domain/jobs/job.ts';
import { parsePayload } from '../../../src/domain/jobs/payload.ts';
import type { HpcSystem } from '../../../src/domain/systems/system.ts';
import { batchSystem, plainTool, toolSystem } from '../example-systems.ts';

const parse = (payload: unknown, system: HpcSystem = batchSystem) => parsePayload(JSON.stringify(payload), system);

/** Returns the names of the invalid fields, in the order of the error. */
function invalidFields(payload: unknown, system: HpcSystem = batchSystem): string[] {
  return payloadError(JSON.stringify(payload), system).fields.map(({ field }) => field);
}

function payloadError(text: string, system: HpcSystem = batchSystem): BursarError {
  try {
    parsePayload(text, system);
  } catch (error) {
    assert.ok(error instanceof BursarError, String(error));
    assert.equal(error.code, 'invalid_payload');
    return error;
  }
  assert.fail(`accepted: ${text}`);
}

describe('parsePayload for a batch system', () => {
  test('accepts the example of the API contract, where every value is a string', () => {
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

  test('accepts JSON numbers as well as strings', () => {
    const numbers = { command: 'true', node_number: 2, core_number: 6, runtime: 2 };
    const texts = { command: 'true', node_number: '2', core_number: '6', runtime: '2.0' };
    assert.deepEqual(parse(numbers), parse(texts));
  });

  test('applies the defaults of the system', () => {
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

  test('accepts the minimum and the maximum of each limit', () => {
    const maximum = { command: 'true', node_number: 64, core_number: 128, runtime: 48 };
    assert.equal(parse(maximum).runtimeHours, 48);
    assert.equal(parse({ command: 'true', node_number: '1', core_number: '+1', runtime: '.5' }).runtimeHours, 0.5);
  });

  test('rejects a long text of digits in linear time', () => {
    // In quadratic time this would take hours.
    const digits = '1'.repeat(5_000_000);
    for (const runtime of [`${digits}x`, `${digits}.${digits}x`, `1e${digits}x`])
      assert.deepEqual(invalidFields({ command: 'true', runtime }), ['runtime']);
  });

  test('rejects values above the limits', () => {
    assert.deepEqual(invalidFields({ command: 'true', node_number: 65 }), ['node_number']);
    assert.deepEqual(invalidFields({ command: 'true', core_number: 129 }), ['core_number']);
    assert.deepEqual(invalidFields({ command: 'true', runtime: 48.1 }), ['runtime']);
    assert.deepEqual(invalidFields({ command: 'true', node_number: 65, core_number: 129, runtime: 49 }), [
      'node_number',
      'core_number',
      'runtime',
    ]);
  });

  test('rejects a missing or empty command', () => {
    for (const payload of [{}, { command: '' }, { command: '  ' }, { command: null }, { command: 7 }]) {
      assert.deepEqual(invalidFields(payload), ['command']);
    }
  });

  test('rejects unknown fields', () => {
    assert.deepEqual(invalidFields({ command: 'true', tool: 'BASH' }), ['tool']);
    assert.deepEqual(invalidFields({ command: 'true', colour: 'blue', Title: 'x' }), ['colour', 'Title']);
    for (const field of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'length']) {
      const [error] = payloadError(`{"command": "true", "${field}": "x"}`).fields;
      assert.equal(error?.field, field);
    }
  });

  test('ignores values on the prototype of an object', () => {
    const error = payloadError('{"__proto__": {"command": "true", "title": "x"}}');
    assert.deepEqual(error.fields.map(({ field }) => field).sort(), ['__proto__', 'command']);
  });

  test('uses the last of duplicate fields, like JSON.parse', () => {
    assert.equal(parsePayload('{"command": "true", "title": "a", "title": "b"}', batchSystem).title, 'b');
  });

  test('reports all errors at once, in fields and message', () => {
    const error = payloadError('{"node_number": 0, "runtime": "x", "colour": 1}');
    assert.deepEqual(
      error.fields.map(({ field }) => field),
      ['node_number', 'runtime', 'colour', 'command'],
    );
    for (const { field, message } of error.fields) assert.ok(error.message.includes(`${field}: ${message}`));
  });

  test('rejects text that is not a JSON object', () => {
    for (const text of ['', ' ', 'x', '{', '[]', '[{}]', 'null', '1', '"x"', 'true', '{"a": 1}}', '\u0000']) {
      assert.equal(payloadError(text).fields.length, 0);
    }
  });
});

describe('parsePayload for a tool system', () => {
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

  test('takes command and entry file from the tool', () => {
    assert.deepEqual(parse({ tool: 'BASH', title: 'x' }, system), {
      title: 'x',
      nodes: 1,
      coresPerNode: 1,
      runtimeHours: 0.5,
      command: { kind: 'argv', argv: ['bash', 'main.sh'] },
      tool: 'BASH',
      entry: 'main.sh',
      params: {},
    } satisfies JobRequest);
  });

  test('reduces the runtime to the limit, as in the API contract', () => {
    assert.equal(parse({ tool: 'BASH', runtime: '2.0' }, system).runtimeHours, 0.5);
    assert.equal(parse({ tool: 'BASH', runtime: 1e300 }, system).runtimeHours, 0.5);
    assert.equal(parse({ tool: 'BASH', runtime: '0.25' }, system).runtimeHours, 0.25);
  });

  test('rejects a runtime that is not a positive number', () => {
    for (const runtime of ['1e999', 'Infinity', 0, -1, '', null]) {
      assert.deepEqual(invalidFields({ tool: 'BASH', runtime }, system), ['runtime']);
    }
  });

  test('accepts the parameters of the requested tool only', () => {
    const { command, params } = parse({ tool: 'SOLVER', steps: '7', mesh: 'a b' }, system);
    assert.deepEqual(params, { steps: '7', mesh: 'a b' });
    assert.deepEqual(command, { kind: 'argv', argv: ['solve', '--steps=7', 'a b'] });
    assert.deepEqual(invalidFields({ tool: 'BASH', steps: 7 }, system), ['steps']);
    assert.deepEqual(invalidFields({ tool: 'SOLVER' }, system), ['steps']);
    assert.deepEqual(invalidFields({ tool: 'SOLVER', steps: 11 }, system), ['steps']);
  });

  test('rejects a missing or unknown tool', () => {
    for (const tool of [undefined, '', ' ', 'bash', 'FORTRAN', '__proto__', 'constructor', null, 7, ['BASH']]) {
      assert.deepEqual(invalidFields({ tool }, system), ['tool']);
    }
    assert.match(payloadError('{"tool": "FORTRAN"}', system).message, /BASH, SOLVER/);
  });

  test('rejects a command', () => {
    assert.deepEqual(invalidFields({ tool: 'BASH', command: 'true' }, system), ['command']);
    assert.deepEqual(invalidFields({ command: 'true' }, system).sort(), ['command', 'tool']);
  });
});

describe('parsePayload: numbers', () => {
  const fields = ['node_number', 'core_number', 'runtime'];
  const invalidNumbers = [
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

  test('rejects values that are not positive numbers in every numeric field', () => {
    for (const field of fields) {
      for (const value of [...invalidNumbers, true, false, null, [], [1], {}, 'one', '+', '.', 'e1', '1e', '\uff11']) {
        assert.deepEqual(
          invalidFields({ command: 'true', [field]: value }),
          [field],
          `${field}: ${JSON.stringify(value)}`,
        );
      }
    }
  });

  test('rejects fractions for nodes and cores', () => {
    for (const field of ['node_number', 'core_number']) {
      for (const value of [1.5, '1.5', '1.0', '1e0', '.5', 2 ** 53, '9'.repeat(16), 1e300]) {
        assert.deepEqual(invalidFields({ command: 'true', [field]: value }), [field], `${field}: ${value}`);
      }
    }
  });

  test('parses strings and JSON numbers to the same value', () => {
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

describe('parsePayload: titles', () => {
  test('keeps titles unchanged', () => {
    const title = fc.string({ unit: 'grapheme', maxLength: 100 }).filter((text) => text.length <= 256);
    fc.assert(
      fc.property(title, (text) => {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: the parser rejects these
        fc.pre(!/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(text));
        assert.equal(parse({ command: 'true', title: text }).title, text);
      }),
    );
    assert.equal(parse({ command: 'true', title: 'x'.repeat(256) }).title.length, 256);
  });

  test('rejects titles with control characters, titles that are too long, and non-strings', () => {
    const controls = [...Array(0x20).keys(), 0x7f, 0x80, 0x9f, 0x2028, 0x2029].map((code) => String.fromCharCode(code));
    for (const title of [...controls.map((char) => `a${char}b`), 'x'.repeat(257), 7, null, true, [], {}]) {
      assert.deepEqual(invalidFields({ command: 'true', title }), ['title'], JSON.stringify(title));
    }
  });
});

describe('parsePayload: arbitrary input', () => {
  const systems = [batchSystem, toolSystem()];

  function assertRejectedOrWithinLimits(text: string, system: HpcSystem) {
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

  test('is rejected with invalid_payload, or becomes a request within the limits', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), fc.constantFrom(...systems), (text, system) => {
        assertRejectedOrWithinLimits(text, system);
      }),
    );
  });

  test('in known fields is rejected, or becomes a request within the limits', () => {
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
      fc.property(payload, fc.constantFrom(...systems), (randomFields, system) => {
        assertRejectedOrWithinLimits(JSON.stringify(randomFields), system);
        const program =
          system.kind === 'batch' ? { command: 'true', tool: undefined } : { tool: 'BASH', command: undefined };
        assertRejectedOrWithinLimits(JSON.stringify({ ...randomFields, ...program }), system);
      }),
      { numRuns: 1000 },
    );
  });
});
