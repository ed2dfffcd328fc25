import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createQueueReader } from '../../../src/engines/slurm/queue-reader.ts';

const [one, two] = ['6B2D1F1E-8C65-4A0B-9A0E-1C5A0E6A7B11', '6B2D1F1E-8C65-4A0B-9A0E-1C5A0E6A7B22'];
const at = 1_794_712_926;

const waiting = (ref: number, name: string) => `0:00|${ref}|PENDING|Resources|0|N/A|N/A||1|1|${name}|`;
const running = (ref: number, name: string, used: string) => `${used}|${ref}|RUNNING|None|0|${at}|NONE|n1|1|1|${name}|`;
const completed = (ref: number, name: string, used: string) =>
  `${used}|${ref}|COMPLETED|None|0|${at}|${at + 9}|n1|1|1|${name}|`;
const output = (...lines: string[]) => lines.map((line) => `${line}\n`).join('');

describe('what squeue prints, look after look', () => {
  test('a line that is the same is understood once, wherever it stands', () => {
    const read = createQueueReader(() => 1);
    const [first, second] = read(output(waiting(1, one), waiting(2, two)));
    const again = read(output('slurm_load_jobs: hm', waiting(2, two), waiting(1, one)));
    assert.deepEqual([first?.observation?.kind, second?.job.name], ['queued', two]);
    assert.equal(again.length, 2);
    assert.equal(again[0], second);
    assert.equal(again[1], first);
  });

  test('so is one of a job that has merely run on', () => {
    const read = createQueueReader(() => 1);
    const [first] = read(output(running(1, one, '0:01')));
    const [later] = read(output(running(1, one, '1-02:03:04')));
    assert.equal(first?.observation?.kind, 'running');
    assert.equal(later, first);
  });

  test('one that is another one is understood anew, with the time used until then', () => {
    const read = createQueueReader(() => 1);
    read(output(waiting(1, one)));
    assert.equal(read(output(running(1, one, '0:01')))[0]?.observation?.kind, 'running');
    const [{ observation } = { observation: null }] = read(output(completed(1, one, '0:09')));
    assert.ok(observation?.kind === 'finished');
    assert.deepEqual([observation.outcome, observation.elapsedSeconds], ['succeeded', 9]);
  });

  test('what is not there any more is not told of, and what comes back is', () => {
    const read = createQueueReader(() => 1);
    const names = (text: string) => read(text).map(({ job }) => job.name);
    assert.deepEqual(names(output(waiting(1, one), waiting(2, two))), [one, two]);
    assert.deepEqual(names(output(waiting(2, two))), [two]);
    assert.deepEqual(names(''), []);
    assert.deepEqual(names(output(waiting(1, one))), [one]);
  });

  test('an id that is another job’s by now is that job’s', () => {
    const read = createQueueReader(() => 1);
    read(output(waiting(1, one)));
    const told = read(output(waiting(1, two))).map(({ observation }) => observation?.jobId);
    assert.deepEqual(told, [two]);
  });

  test('jobs that are not Bursar’s are left out, time after time', () => {
    const read = createQueueReader(() => 1);
    for (let look = 0; look < 3; look++) assert.deepEqual(read(output(waiting(1, 'somebody|else'))), []);
  });
});
