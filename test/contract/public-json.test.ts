import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Ajv } from 'ajv';
import fc from 'fast-check';
import Type from 'typebox';
import { createJsonWriter, stageSchema } from '../../src/contract/fields.ts';
import { type JobFields, JobSchema, publicJob } from '../../src/contract/job.ts';
import { type QuotaFields, QuotaSchema, toQuotaJson } from '../../src/contract/ledger.ts';
import type { AccountBalance } from '../../src/domain/accounting/charge.ts';
import type { JobEnd, Outcome } from '../../src/domain/jobs/job.ts';
import { batchSystem, toolSystem } from '../domain/example-systems.ts';

const ajv = new Ajv({ strict: false, validateFormats: false });
ajv.addSchema(stageSchema([batchSystem, toolSystem()]));
const isJob = ajv.compile(JobSchema);
const isQuota = ajv.compile(QuotaSchema);

describe('createJsonWriter', () => {
  const write = createJsonWriter(Type.Object({ whole: Type.Integer(), float: Type.Number(), text: Type.String() }));

  test('writes floats with a fraction, and integers without', () => {
    assert.equal(write({ whole: 2, float: 2, text: '2' }), '{"whole":2,"float":2.0,"text":"2"}');
    assert.equal(write({ whole: 0, float: 0, text: '' }), '{"whole":0,"float":0.0,"text":""}');
    assert.match(write({ whole: -1, float: -1, text: '' }), /"whole":-1,"float":-1\.0/);
    assert.match(write({ whole: 1, float: 0.1, text: '' }), /"float":0\.1,/);
    assert.match(write({ whole: 1, float: 10_000_000, text: '' }), /"float":10000000\.0,/);
  });

  test('writes exactly the fields of the schema, in its order', () => {
    const value = { extra: 'x', text: 'c', float: 1.5, whole: 1 };
    assert.equal(write(value), '{"whole":1,"float":1.5,"text":"c"}');
  });

  test('throws on floats that are not finite numbers', () => {
    for (const float of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      assert.throws(() => write({ whole: 1, float, text: '' }), /not a finite number/);
    }
    assert.throws(() => write({ whole: 1, text: '' } as never), /not a finite number/);
  });

  test('writes JSON that parses to the same value', () => {
    const fields = {
      whole: fc.maxSafeInteger(),
      float: fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => (number === 0 ? 0 : number)),
      text: fc.string({ unit: 'binary' }),
    };
    const value = fc.record(fields, { noNullPrototype: true });
    fc.assert(
      fc.property(value, (written) => {
        const json = write(written);
        assert.deepEqual(JSON.parse(json), written);
        assert.match(/"float":([^,]+)/.exec(json)?.[1] ?? '', /[.e]/);
        assert.doesNotMatch(/"whole":([^,]+)/.exec(json)?.[1] ?? '', /[.e]/);
      }),
    );
  });
});

describe('publicJob', () => {
  const accepted: JobFields = {
    id: 7,
    jobId: '0F8FAD5B-D9CB-469F-A165-70867728950E',
    owner: '301330',
    project: { id: 1, hpc: 'hpc_one', name: 'proj_hpc_one_01' },
    request: { title: 'Title', runtimeHours: 2 },
    status: { state: 'accepted' },
    acceptedAt: Date.UTC(2026, 0, 31, 12, 0, 0, 999),
  };
  const end: JobEnd = {
    outcome: 'succeeded',
    reason: 'exit code 0',
    exitCode: 0,
    startedAt: 1,
    endedAt: Date.UTC(2026, 1, 1),
    elapsedSeconds: 1,
  };

  test('matches the example of the API contract byte for byte', () => {
    assert.equal(
      publicJob(accepted, batchSystem.stages).json,
      '{"id":7,"job_id":"0F8FAD5B-D9CB-469F-A165-70867728950E","owner":"301330","project":1,"project_hpc":"HPC_ONE",' +
        '"project_name":"proj_hpc_one_01","title":"Title","runtime":2.0,"stage":"QUEUED","terminal_stage":false,' +
        '"failed":false,"init_date":"2026-01-31T12:00:00Z","end_date":null}',
    );
  });

  test('uses the stage names of the system', () => {
    const toolJob = { ...accepted, project: { id: 2, hpc: 'hpc_two', name: 'proj_hpc_two_01' } };
    assert.equal(JSON.parse(publicJob(toolJob, toolSystem().stages).json).stage, 'QUEUE');
    const endedJson = publicJob({ ...toolJob, status: { state: 'ended', ...end } }, toolSystem().stages).json;
    const { stage, terminal_stage, failed, end_date, project_hpc } = JSON.parse(endedJson);
    assert.deepEqual(
      { stage, terminal_stage, failed, end_date, project_hpc },
      {
        stage: 'COMPLETED',
        terminal_stage: true,
        failed: false,
        end_date: '2026-02-01T00:00:00Z',
        project_hpc: 'HPC_TWO',
      },
    );
  });

  test('distinguishes failure from success and cancellation, also for deleted jobs', () => {
    const publicFields = (outcome: Outcome, state: 'ended' | 'deleted') => {
      const job = JSON.parse(publicJob({ ...accepted, status: { state, ...end, outcome } }, batchSystem.stages).json);
      return [job.stage, job.terminal_stage, job.failed];
    };
    assert.deepEqual(publicFields('timed_out', 'ended'), ['FAILED', true, true]);
    assert.deepEqual(publicFields('cancelled', 'ended'), ['CANCELED', true, false]);
    assert.deepEqual(publicFields('lost', 'deleted'), ['DELETED', true, true]);
    assert.deepEqual(publicFields('succeeded', 'deleted'), ['DELETED', true, false]);
  });

  test('matches its schema, and parses to the same values', () => {
    const runtime = fc.double({ min: 0.0001, max: 1000, noNaN: true });
    const time = fc.integer({ min: 0, max: Date.UTC(2999, 0) });
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), runtime, time, fc.nat(), (title, runtimeHours, acceptedAt, id) => {
        const json = publicJob(
          { ...accepted, id, acceptedAt, request: { title, runtimeHours } },
          batchSystem.stages,
        ).json;
        const job = JSON.parse(json);
        assert.ok(isJob(job), ajv.errorsText(isJob.errors));
        assert.deepEqual([job.title, job.runtime, job.id], [title, runtimeHours, id]);
        assert.equal(Date.parse(job.init_date), Math.floor(acceptedAt / 1000) * 1000);
      }),
    );
  });
});

describe('toQuotaJson', () => {
  const zero: AccountBalance = { granted: 0, held: 0, posted: 0, overrun: 0 };
  const quota: QuotaFields = {
    id: 3,
    userId: '301330',
    project: { id: 2, hpc: 'hpc_two', name: 'proj_hpc_two_01' },
    time: { pool: { ...zero, granted: 36_000 }, cap: { ...zero, granted: 18_000, held: 3600 } },
    space: { pool: { ...zero, granted: 20_000_000 }, cap: { ...zero, granted: 10_000_000, posted: 1 } },
  };

  test('matches the API contract byte for byte', () => {
    assert.equal(
      toQuotaJson(quota),
      '{"id":3,"project":2,"project_hpc":"HPC_TWO","project_name":"proj_hpc_two_01","space_left":9999.999,' +
        '"time_left":14400,"user":"301330"}',
    );
  });

  test('writes space_left with a fraction, also for whole KB and zero', () => {
    const space = (granted: number) => ({ ...quota, space: { pool: { ...zero, granted }, cap: { ...zero, granted } } });
    assert.match(toQuotaJson(space(10_000_000)), /"space_left":10000\.0,/);
    assert.match(toQuotaJson(space(0)), /"space_left":0\.0,"time_left":14400,/);
  });

  test('matches its schema and is never negative, whatever the balances', () => {
    const balances = fc.record({ granted: fc.nat(), held: fc.nat(), posted: fc.nat(), overrun: fc.nat() });
    const pair = fc.record({ pool: balances, cap: balances });
    fc.assert(
      fc.property(pair, pair, (time, space) => {
        const json = toQuotaJson({ ...quota, time, space });
        const publicQuota = JSON.parse(json);
        assert.ok(isQuota(publicQuota), ajv.errorsText(isQuota.errors));
        assert.ok(publicQuota.time_left >= 0 && publicQuota.space_left >= 0);
        assert.match(json, /"space_left":[^,]*[.e]/);
        assert.match(json, /"time_left":\d+,/);
      }),
    );
  });
});
