import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Ajv } from 'ajv';
import fc from 'fast-check';
import Type from 'typebox';
import { type JobFields, JobSchema, toJobJson } from '../../src/contract/job.ts';
import { createJsonWriter } from '../../src/contract/json-format.ts';
import { type QuotaFields, QuotaSchema, toQuotaJson } from '../../src/contract/quota.ts';
import type { AccountBalance } from '../../src/domain/accounting/settlement.ts';
import type { JobEnd, Outcome } from '../../src/domain/jobs/job.ts';
import { batchSystem, toolSystem } from '../domain/example-systems.ts';

const ajv = new Ajv({ strict: false });
const isJob = ajv.compile(JobSchema);
const isQuota = ajv.compile(QuotaSchema);

describe('the writer of JSON', () => {
  const write = createJsonWriter(Type.Object({ whole: Type.Integer(), float: Type.Number(), text: Type.String() }));

  test('gives floats a fraction, and integers none', () => {
    assert.equal(write({ whole: 2, float: 2, text: '2' }), '{"whole":2,"float":2.0,"text":"2"}');
    assert.equal(write({ whole: 0, float: 0, text: '' }), '{"whole":0,"float":0.0,"text":""}');
    assert.match(write({ whole: -1, float: -1, text: '' }), /"whole":-1,"float":-1\.0/);
    assert.match(write({ whole: 1, float: 0.1, text: '' }), /"float":0\.1,/);
    assert.match(write({ whole: 1, float: 10_000_000, text: '' }), /"float":10000000\.0,/);
  });

  test('writes its fields in the order of the schema, and no others', () => {
    const value = { more: 'x', text: 'c', float: 1.5, whole: 1 };
    assert.equal(write(value), '{"whole":1,"float":1.5,"text":"c"}');
  });

  test('refuses what is no number', () => {
    for (const float of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      assert.throws(() => write({ whole: 1, float, text: '' }), /not a finite number/);
    }
    assert.throws(() => write({ whole: 1, text: '' } as never), /not a finite number/);
  });

  test('is read back as what was written', () => {
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

describe('a job in JSON', () => {
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

  test('is what the interface shows after a submission, to the letter', () => {
    assert.equal(
      toJobJson(accepted, batchSystem.stages),
      '{"id":7,"job_id":"0F8FAD5B-D9CB-469F-A165-70867728950E","owner":"301330","project":1,"project_hpc":"HPC_ONE",' +
        '"project_name":"proj_hpc_one_01","title":"Title","runtime":2.0,"stage":"QUEUED","terminal_stage":false,' +
        '"failed":false,"init_date":"2026-01-31T12:00:00Z","end_date":null}',
    );
  });

  test('speaks the words of its system', () => {
    const onTools = { ...accepted, project: { id: 2, hpc: 'hpc_two', name: 'proj_hpc_two_01' } };
    assert.equal(JSON.parse(toJobJson(onTools, toolSystem().stages)).stage, 'QUEUE');
    const over = toJobJson({ ...onTools, status: { state: 'ended', ...end } }, toolSystem().stages);
    const { stage, terminal_stage, failed, end_date, project_hpc } = JSON.parse(over);
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

  test('tells failures from success and cancellation, also when its files are gone', () => {
    const shown = (outcome: Outcome, state: 'ended' | 'deleted') => {
      const job = JSON.parse(toJobJson({ ...accepted, status: { state, ...end, outcome } }, batchSystem.stages));
      return [job.stage, job.terminal_stage, job.failed];
    };
    assert.deepEqual(shown('timed_out', 'ended'), ['FAILED', true, true]);
    assert.deepEqual(shown('cancelled', 'ended'), ['CANCELED', true, false]);
    assert.deepEqual(shown('lost', 'deleted'), ['DELETED', true, true]);
    assert.deepEqual(shown('succeeded', 'deleted'), ['DELETED', true, false]);
  });

  test('keeps to its schema, and is read back as what was written', () => {
    const runtime = fc.double({ min: 0.0001, max: 1000, noNaN: true });
    const time = fc.integer({ min: 0, max: Date.UTC(2999, 0) });
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), runtime, time, fc.nat(), (title, runtimeHours, acceptedAt, id) => {
        const json = toJobJson({ ...accepted, id, acceptedAt, request: { title, runtimeHours } }, batchSystem.stages);
        const job = JSON.parse(json);
        assert.ok(isJob(job), ajv.errorsText(isJob.errors));
        assert.deepEqual([job.title, job.runtime, job.id], [title, runtimeHours, id]);
        assert.equal(Date.parse(job.init_date), Math.floor(acceptedAt / 1000) * 1000);
      }),
    );
  });
});

describe('a quota in JSON', () => {
  const none: AccountBalance = { granted: 0, held: 0, posted: 0, overrun: 0 };
  const quota: QuotaFields = {
    id: 3,
    userId: '301330',
    project: { id: 2, hpc: 'hpc_two', name: 'proj_hpc_two_01' },
    time: { pool: { ...none, granted: 36_000 }, cap: { ...none, granted: 18_000, held: 3600 } },
    space: { pool: { ...none, granted: 20_000_000 }, cap: { ...none, granted: 10_000_000, posted: 1 } },
  };

  test('is what the interface shows, to the letter', () => {
    assert.equal(
      toQuotaJson(quota),
      '{"id":3,"project":2,"project_hpc":"HPC_TWO","project_name":"proj_hpc_two_01","space_left":9999.999,' +
        '"time_left":14400,"user":"301330"}',
    );
  });

  test('has a fraction where space is left in whole KB, and where none is left', () => {
    const space = (granted: number) => ({ ...quota, space: { pool: { ...none, granted }, cap: { ...none, granted } } });
    assert.match(toQuotaJson(space(10_000_000)), /"space_left":10000\.0,/);
    assert.match(toQuotaJson(space(0)), /"space_left":0\.0,"time_left":14400,/);
  });

  test('keeps to its schema and never shows less than nothing, whatever the books say', () => {
    const figures = fc.record({ granted: fc.nat(), held: fc.nat(), posted: fc.nat(), overrun: fc.nat() });
    const pair = fc.record({ pool: figures, cap: figures });
    fc.assert(
      fc.property(pair, pair, (time, space) => {
        const json = toQuotaJson({ ...quota, time, space });
        const shown = JSON.parse(json);
        assert.ok(isQuota(shown), ajv.errorsText(isQuota.errors));
        assert.ok(shown.time_left >= 0 && shown.space_left >= 0);
        assert.match(json, /"space_left":[^,]*[.e]/);
        assert.match(json, /"time_left":\d+,/);
      }),
    );
  });
});
