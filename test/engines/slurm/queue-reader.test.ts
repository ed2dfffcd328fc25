import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createQueueReader } from '../../../src/engines/slurm/squeue.ts';

const [one, two] = ['6B2D1F1E-8C65-4A0B-9A0E-1C5A0E6A7B11', '6B2D1F1E-8C65-4A0B-9A0E-1C5A0E6A7B22'];
const at = 1_794_712_926;

const waiting = (ref: number, name: string) => `0:00|${ref}|PENDING|Resources|0|N/A|N/A||1|1|${name}|`;
const running = (ref: number, name: string, used: string) => `${used}|${ref}|RUNNING|None|0|${at}|NONE|n1|1|1|${name}|`;
const completed = (ref: number, name: string, used: string) =>
  `${used}|${ref}|COMPLETED|None|0|${at}|${at + 9}|n1|1|1|${name}|`;
const output = (...lines: string[]) => lines.map((line) => `${line}\n`).join('');

describe('createQueueReader', () => {
  test('returns the cached entry of an unchanged line, at any position', () => {
    const read = createQueueReader(() => 1);
    const [first, second] = read(output(waiting(1, one), waiting(2, two)));
    const reordered = read(output('slurm_load_jobs: hm', waiting(2, two), waiting(1, one)));
    assert.deepEqual([first?.observation?.kind, second?.name], ['queued', two]);
    assert.equal(reordered.length, 2);
    assert.equal(reordered[0], second);
    assert.equal(reordered[1], first);
  });

  test('returns the cached entry if only the elapsed time has changed', () => {
    const read = createQueueReader(() => 1);
    const [first] = read(output(running(1, one, '0:01')));
    const [later] = read(output(running(1, one, '1-02:03:04')));
    assert.equal(first?.observation?.kind, 'running');
    assert.equal(later, first);
  });

  test('parses a changed line again, with its elapsed time', () => {
    const read = createQueueReader(() => 1);
    read(output(waiting(1, one)));
    assert.equal(read(output(running(1, one, '0:01')))[0]?.observation?.kind, 'running');
    const [{ observation } = { observation: null }] = read(output(completed(1, one, '0:09')));
    assert.ok(observation?.kind === 'finished');
    assert.deepEqual([observation.outcome, observation.elapsedSeconds], ['succeeded', 9]);
  });

  test('reports exactly the jobs of the current output', () => {
    const read = createQueueReader(() => 1);
    const names = (text: string) => read(text).map(({ name }) => name);
    assert.deepEqual(names(output(waiting(1, one), waiting(2, two))), [one, two]);
    assert.deepEqual(names(output(waiting(2, two))), [two]);
    assert.deepEqual(names(''), []);
    assert.deepEqual(names(output(waiting(1, one))), [one]);
  });

  test('reports the new job if an id is reused', () => {
    const read = createQueueReader(() => 1);
    read(output(waiting(1, one)));
    const jobIds = read(output(waiting(1, two))).map(({ observation }) => observation?.jobId);
    assert.deepEqual(jobIds, [two]);
  });

  test('omits jobs of other users, cached or not', () => {
    const read = createQueueReader(() => 1);
    for (let poll = 0; poll < 3; poll++) assert.deepEqual(read(output(waiting(1, 'somebody|else'))), []);
  });
});
