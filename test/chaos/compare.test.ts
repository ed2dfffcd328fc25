import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compareJob, type Difference, type Kills, parseOwnRecord, type StoredJob } from '../../chaos/compare.ts';
import { countHeldSeconds, parseCompletions, parseWrapperRecord } from '../../chaos/held-time.ts';
import type { Plan, SubmittedJob } from '../../chaos/workload.ts';

const submitted = (plan: Plan, isCancelRequested = false): SubmittedJob => ({
  ...{ title: 'u1-1', plan, cores: 2, isAccepted: true, isCancelRequested },
});
const exit: Plan = { kind: 'exit', code: 0, seconds: 5 };
const stored = (changes: Partial<StoredJob> = {}): StoredJob => ({
  ...{
    jobId: '',
    title: 'u1-1',
    outcome: 'succeeded',
    reason: '',
    exitCode: 0,
    chargedSeconds: 10,
    heldSeconds: 0,
    hasEndRecord: true,
    endStoredAt: 110_000,
  },
  ...changes,
});
const noKills: Kills = { nodes: [], controllers: [] };
const ran = 'start 100\nend 105 0\n';

describe('compareJob', () => {
  describe('a success that is stored as the failure of a node', () => {
    const nodeFailed = { outcome: 'node_failed', chargedSeconds: 0, hasEndRecord: false } as const;
    const cases: [string, Partial<StoredJob>, nodeKills: number[], Difference | null][] = [
      ['is right if the node was killed before the end record was written', nodeFailed, [106_000], null],
      ['is wrong if there is an end record', { ...nodeFailed, hasEndRecord: true }, [106_000], 'wrong outcome'],
      ['is wrong if no node was killed then', nodeFailed, [101_000, 109_000], 'wrong outcome'],
      ['is wrong if it was charged', { ...nodeFailed, chargedSeconds: 1 }, [106_000], 'wrong outcome'],
    ];
    for (const [name, changes, nodes, expected] of cases) {
      test(name, () => {
        const kills = { nodes, controllers: [] };
        const difference = compareJob(submitted(exit), [stored(changes)], parseOwnRecord(ran), kills);
        assert.equal(difference?.kind ?? null, expected);
      });
    }
  });

  const cases: [string, SubmittedJob, StoredJob[], string, Difference | null][] = [
    ['a job that ended and paid as it ran', submitted(exit), [stored()], ran, null],
    ['an accepted job that is not stored', submitted(exit), [], '', 'lost'],
    ['a job that never ended', submitted(exit), [stored({ outcome: null })], ran, 'lost'],
    ['a job that is stored twice', submitted(exit), [stored(), stored()], ran, 'doubled'],
    ['a job that started twice', submitted(exit), [stored()], `start 100\n${ran}`, 'doubled'],
    ['a success stored as a failure', submitted(exit), [stored({ outcome: 'node_failed' })], ran, 'wrong outcome'],
    ['a failure stored as a success', submitted(exit), [stored()], 'start 100\nend 105 3\n', 'wrong outcome'],
    [
      'a wrong exit code',
      submitted(exit),
      [stored({ outcome: 'failed', exitCode: 4 })],
      'start 100\nend 105 3\n',
      'wrong outcome',
    ],
    ['too high a charge', submitted(exit), [stored({ chargedSeconds: 154 })], ran, 'wrong charge'],
    [
      'a charge for the time that cores were held',
      submitted(exit),
      [stored({ chargedSeconds: 28, heldSeconds: 14 })],
      ran,
      null,
    ],
    [
      'a charge for more than the time that cores were held',
      submitted(exit),
      [stored({ chargedSeconds: 32, heldSeconds: 14 })],
      ran,
      'wrong charge',
    ],
    ['too low a charge', submitted(exit), [stored({ chargedSeconds: 0 })], ran, 'wrong charge'],
    ['a success of a job that never started', submitted(exit), [stored()], '', 'wrong outcome'],
    [
      'a charge for a job that never started',
      submitted(exit),
      [stored({ outcome: 'node_failed', chargedSeconds: 1 })],
      '',
      'wrong charge',
    ],
    [
      'a job that was cancelled before its script began',
      submitted({ kind: 'cancel', afterSeconds: 1 }, true),
      [stored({ outcome: 'cancelled', chargedSeconds: 2 })],
      '',
      null,
    ],
    [
      'a high charge for a job that was cancelled before its script began',
      submitted({ kind: 'cancel', afterSeconds: 1 }, true),
      [stored({ outcome: 'cancelled', chargedSeconds: 7 })],
      '',
      'wrong charge',
    ],
    [
      'a cancelled job',
      submitted({ kind: 'cancel', afterSeconds: 1 }, true),
      [stored({ outcome: 'cancelled' })],
      'start 100\n',
      null,
    ],
    [
      'a cancellation that nobody requested',
      submitted(exit),
      [stored({ outcome: 'cancelled' })],
      'start 100\n',
      'wrong outcome',
    ],
    [
      'a timeout that costs more than the granted runtime',
      submitted({ kind: 'timeout' }),
      [stored({ outcome: 'timed_out', chargedSeconds: 121 })],
      'start 100\n',
      'wrong charge',
    ],
    [
      'a node failure without a killed node',
      submitted(exit),
      [stored({ outcome: 'node_failed', chargedSeconds: 0 })],
      'start 100\n',
      'wrong outcome',
    ],
  ];
  for (const [name, job, jobs, record, expected] of cases) {
    test(`${expected ?? 'no difference'}: ${name}`, () => {
      assert.equal(compareJob(job, jobs, parseOwnRecord(record), noKills)?.kind ?? null, expected);
    });
  }

  test('accepts the loss of a job that ran when a node or a controller was killed', () => {
    const lost = [stored({ outcome: 'lost', chargedSeconds: 0 })];
    const compare = (at: number) =>
      compareJob(submitted(exit), lost, parseOwnRecord('start 100\n'), { ...noKills, controllers: [at] });
    assert.equal(compare(103_000), null);
    for (const at of [50_000, 120_000]) assert.equal(compare(at)?.kind, 'wrong outcome');
    const failed = [stored({ outcome: 'node_failed', chargedSeconds: 0 })];
    assert.equal(
      compareJob(submitted(exit), failed, parseOwnRecord('start 100\n'), { ...noKills, nodes: [103_000] }),
      null,
    );
    assert.notEqual(
      compareJob(submitted(exit), failed, parseOwnRecord('start 100\n'), { ...noKills, nodes: [50_000] }),
      null,
    );
  });

  test('accepts that a cancelled job pays nothing only if a controller was killed while it ran', () => {
    const job = submitted({ kind: 'cancel', afterSeconds: 1 }, true);
    const free = [stored({ outcome: 'cancelled', chargedSeconds: 0 })];
    const compare = (at: number) =>
      compareJob(job, free, parseOwnRecord('start 100\n'), { ...noKills, controllers: [at] });
    assert.equal(compare(103_000), null);
    for (const at of [50_000, 120_000]) assert.equal(compare(at)?.kind, 'wrong charge');
  });
});

test('countHeldSeconds counts until the end record was written, in the run that wrote it', () => {
  const line = (name: string, start: string, end: string) =>
    `JobId=7 UserId=root(0) GroupId=root(0) Name=${name} JobState=COMPLETED Partition=all TimeLimit=30 StartTime=${start} ` +
    `EndTime=${end} NodeList=n1 NodeCnt=1 ProcCnt=2 WorkDir=/x ReservationName= Tres=cpu=2 \n`;
  const at = (seconds: number) => new Date(1_000_000_000_000 + seconds * 1000).toISOString();
  const runs = parseCompletions(
    line('A', at(0), at(20)) + line('A', at(50), at(90)) + line('B', 'Unknown', at(1)) + line('C', at(3), at(5)),
  );
  const held = (name: string, writtenAt: number | null) =>
    countHeldSeconds(
      runs.get(name) ?? [],
      writtenAt === null ? null : parseWrapperRecord('0 1000000001 1000000002\n', 1_000_000_000 + writtenAt),
    );
  assert.deepEqual([held('A', 15), held('A', 60), held('A', null)], [15, 10, 40]);
  assert.deepEqual([held('B', null), held('C', 4.5)], [0, 1.5]);
  assert.deepEqual([held('unknown', 3), held('unknown', null)], [2, 0], 'of a forgotten job, the time of its wrapper');
});
