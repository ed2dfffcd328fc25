import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Bursar } from '#client';
import {
  attemptTag,
  describeSweep,
  openSweepJournal,
  submissionKey,
  sweepTag,
} from '../../../src/cli/user/sweep/sweep-journal.ts';
import { type SweepRun, submitRun } from '../../../src/cli/user/sweep/sweep-runs.ts';
import { isTag } from '../../../src/domain/jobs/payload-fields.ts';

const nothingKnown = { job: null, outcome: null, collectedTo: null, isSubmitting: false };
const job = { job_id: 'J1', hpc: 'hpc_one', project_name: 'p' };

describe('the journal of a sweep', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'bursar-journal-'));
  });
  after(() => rmSync(folder, { recursive: true }));

  test('two processes that start at the same time submit with the same keys', async () => {
    const keys: string[][] = [];
    const combinations = [{ a: '1' }, { a: '2' }];
    const journals = [openSweepJournal(folder, 'twice'), openSweepJournal(folder, 'twice')];
    // Neither journal has a record yet. The second one reads those of the first one with its first submission.
    for (const journal of journals) {
      const used: string[] = [];
      for (const combination of combinations) {
        const run: SweepRun = { combination, settings: { system: 'hpc_one', params: {} }, attempt: 0, ...nothingKnown };
        const submit = async (_: unknown, key: string) => {
          used.push(key);
          throw new Error('the process was killed');
        };
        await submitRun({} as Bursar, journal, run, submit, new AbortController().signal).catch(() => undefined);
      }
      keys.push(used);
    }
    assert.equal(keys[0]?.length, 2);
    assert.deepEqual(keys[1], keys[0]);
  });

  test('remembers attempts, jobs and collected files', () => {
    const first = openSweepJournal(folder, 'one');
    assert.equal(first.find({ a: '1' }), undefined);
    first.addAttempt({ a: '1', b: '2' }, 1);
    first.addJob({ a: '1', b: '2' }, job);
    first.addAttempt({ a: '2', b: '2' }, 1);
    const second = openSweepJournal(folder, 'one');
    assert.equal(second.sweepId, first.sweepId);
    assert.deepEqual(second.find({ b: '2', a: '1' }), { attempt: 1, job, outcome: null, collectedTo: null });
    assert.deepEqual(second.find({ a: '2', b: '2' }), { attempt: 1, job: null, outcome: null, collectedTo: null });
    second.addEnd({ a: '1', b: '2' }, 'succeeded');
    assert.equal(openSweepJournal(folder, 'one').find({ a: '1', b: '2' })?.outcome, 'succeeded');
    second.addCollected({ a: '1', b: '2' }, 'results');
    assert.equal(openSweepJournal(folder, 'one').find({ a: '1', b: '2' })?.collectedTo, 'results');
    second.addAttempt({ a: '1', b: '2' }, 2);
    assert.deepEqual(openSweepJournal(folder, 'one').find({ a: '1', b: '2' }), {
      attempt: 2,
      job: null,
      outcome: null,
      collectedTo: null,
    });
  });

  test('ignores a line that was cut off at any byte, and goes on after it', () => {
    const journal = openSweepJournal(folder, 'cut');
    journal.addAttempt({ a: '1' }, 1);
    const complete = readFileSync(journal.path);
    journal.addJob({ a: '1' }, job);
    const whole = readFileSync(journal.path);
    for (let length = complete.length; length < whole.length - 1; length++) {
      writeFileSync(journal.path, whole.subarray(0, length));
      const reopened = openSweepJournal(folder, 'cut');
      assert.equal(reopened.find({ a: '1' })?.job, null);
      reopened.addJob({ a: '1' }, job);
      assert.deepEqual(openSweepJournal(folder, 'cut').find({ a: '1' })?.job, job);
    }
  });

  test('is another one for another sweep, and leaves no temporary file', () => {
    assert.notEqual(openSweepJournal(folder, 'x').sweepId, openSweepJournal(folder, 'y').sweepId);
    for (const name of readdirSync(join(folder, '.bursar'))) assert.match(name, /^sweep-[0-9a-f]{12}\.jsonl$/);
  });

  test('refuses a file that is none', () => {
    const { path, sweepId } = openSweepJournal(folder, 'odd');
    assert.match(sweepId, /^[0-9a-f]{12}$/);
    writeFileSync(path, '');
    appendFileSync(path, '{"type":"submitted"}\n');
    assert.throws(() => openSweepJournal(folder, 'odd'), /is not a journal/);
  });

  test('keys and tags differ for each combination and attempt, and are valid', () => {
    const texts = [
      submissionKey('0123456789ab', { a: '1' }, 1),
      submissionKey('0123456789ab', { a: '1' }, 2),
      submissionKey('0123456789ab', { a: '2' }, 1),
    ];
    assert.equal(new Set(texts).size, 3);
    for (const tag of [sweepTag('0123456789ab'), attemptTag({ a: '1' }, 10_000)]) assert.ok(isTag(tag), tag);
  });

  test('a sweep is the same one whatever the order of its parameters', () => {
    const settings = { command: 'x {a} {b}', params: { c: '1', d: '2' } };
    const same = { command: 'x {a} {b}', params: { d: '2', c: '1' } };
    assert.equal(describeSweep('u', settings, ['a', 'b']), describeSweep('u', same, ['b', 'a']));
    assert.notEqual(
      describeSweep('u', settings, ['a', 'b']),
      describeSweep('u', { ...settings, nodes: 2 }, ['a', 'b']),
    );
  });
});
