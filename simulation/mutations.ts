/** A small change that a tired engineer could make. The simulation must find it. */
export interface Mutation {
  name: string;
  changes: Change[];
}

interface Change {
  /** In `src/`. */
  file: string;
  /** A text that occurs once. */
  from: string;
  to: string;
}

const inFile = (file: string, from: string, to: string): Change => ({ file, from, to });

export const mutations: Mutation[] = [
  {
    name: 'submit without `find` after a lost response',
    changes: [
      inFile('workers/jobs/dispatcher.ts', 'if (job.tries > 1) {', 'if (job.tries > 99) {'),
      inFile('workers/jobs/dispatcher.ts', 'isFirstTry: job.tries === 1', 'isFirstTry: true'),
      // The nodes refuse a second start, so that only the record tells.
      inFile('workers/jobs/watcher.ts', 'if (strayRefs.length > 0) await', 'if (strayRefs.length > 99) await'),
    ],
  },
  {
    name: 'release a job before its ref is stored',
    changes: [
      inFile(
        'workers/jobs/dispatcher.ts',
        "  if (!(await advanceJob(deps, job, { next: { state: 'queued' }",
        "  await releaseJobs(deps, new Map([[job.jobId, engineRef]]), attempt.stopping);\n  if (!(await advanceJob(deps, job, { next: { state: 'queued' }",
      ),
    ],
  },
  {
    name: 'settle a job in a second transaction, after its end is stored',
    changes: [
      inFile(
        'workers/jobs/advance-job.ts',
        '  const isStored = await lease.transaction(async (tx) => {',
        '  let settleLater: (() => Promise<unknown>) | undefined;\n  const isStored = await lease.transaction(async (tx) => {',
      ),
      inFile(
        'workers/jobs/advance-job.ts',
        "await settle(tx, job, { ...settlement, spaceBytes }, { actor: 'bursar', at });",
        "settleLater = () =>\n        lease.transaction((later) => settle(later, job, { ...settlement, spaceBytes }, { actor: 'bursar', at }));",
      ),
      inFile(
        'workers/jobs/advance-job.ts',
        '    return true;\n  });\n',
        '    return true;\n  });\n  await settleLater?.();\n',
      ),
    ],
  },
  {
    name: 'settle again when an end is observed twice',
    changes: [
      inFile(
        'workers/jobs/watcher.ts',
        "if (observation.kind === 'finished') storedEnds.push(jobId);",
        "if (observation.kind === 'finished') ends.push(observation);",
      ),
      inFile(
        'domain/jobs/transition.ts',
        'return rank[observedState[observation.kind]] > rank[current];',
        'return rank[observedState[observation.kind]] >= rank[current];',
      ),
    ],
  },
  {
    name: 'store the response of a key after the commit of its job',
    changes: [
      inFile(
        'services/jobs/submit-job.ts',
        '    await claim?.complete(tx, json, bodySha256);\n    return json;\n  });',
        '    return json;\n  }).then(async (json) => {\n    await inTransaction(deps.db, async (tx) => await claim?.complete(tx, json, bodySha256));\n    return json;\n  });',
      ),
    ],
  },
  {
    name: 'assign event numbers before the commit',
    changes: [
      inFile(
        'store/events/events.ts',
        '    const rows = recipients.map',
        `    for (const user of recipients) {
      if (user.seq > 1) user.seq = (assigned.get(user.id) ?? user.seq - 1) + 1;
      assigned.set(user.id, user.seq);
    }
    const rows = recipients.map`,
      ),
      inFile(
        'store/events/events.ts',
        '/** Inserts the same event for several users. */',
        'const assigned = new Map<string, number>();\n',
      ),
    ],
  },
  {
    name: 'ignore the fencing token',
    changes: [
      inFile(
        'store/systems/leases.ts',
        '  if (row !== undefined) return;\n',
        '  if (row !== undefined || term > 0) return;\n',
      ),
      inFile('workers/hold-lease.ts', 'if (current !== acquired) throw leaseLostError(name);', ''),
    ],
  },
  {
    name: 'continue after a lost lease',
    changes: [
      inFile(
        'workers/hold-lease.ts',
        'if (current === acquired && performance.now() < acquired.validUntil) return;',
        'if (acquired) return;',
      ),
    ],
  },
  {
    name: 'mark a delivery as sent before it is',
    changes: [
      inFile(
        'workers/webhook-worker.ts',
        'const result = await send(webhook.url, headers, body, signal);',
        "const result: AttemptResult = { ok: true, result: '2xx', error: null, status: 200, detail: null };\n    await storeResult(deps, delivery, result);\n    await send(webhook.url, headers, body, signal);",
      ),
    ],
  },
  {
    name: 'do not free the hold of a rejected job',
    changes: [
      inFile(
        'workers/jobs/advance-job.ts',
        '      await settle(tx',
        "      if (next.outcome !== 'rejected') await settle(tx",
      ),
    ],
  },
  {
    name: 'charge a node failure',
    changes: [
      inFile('domain/accounting/charge.ts', "      return 'failed by the system: node failure';", '      return null;'),
    ],
  },
  {
    name: 'count an upload against the period in which it began',
    changes: [
      inFile(
        'services/jobs/submission-target.ts',
        'return { ...target, accounts: requireAccounts(eligibility) };',
        'return eligibility && target;',
      ),
    ],
  },
  {
    name: 'let the engine forget a job before its end is stored',
    changes: [
      inFile(
        'workers/jobs/job-ends.ts',
        '      const result = await storeJobEnd(',
        '      await forget(jobId);\n      const result = await storeJobEnd(',
      ),
    ],
  },
  {
    name: 'answer before the commit',
    changes: [inFile('store/database/group-commit.ts', '          await group.promise;\n', '')],
  },
  {
    name: 'check the quota only before the upload',
    changes: [
      inFile(
        'store/ledger/accounts.ts',
        "    .where(availableAmount, '>=', amount)\n    .returningAll();\n});",
        '    .returningAll();\n});',
      ),
    ],
  },
  {
    name: 'believe the report of an end, not its record',
    changes: [
      inFile(
        'domain/jobs/end-record.ts',
        "  if (typeof record !== 'object') return report;",
        '  if (record !== null) return report;',
      ),
    ],
  },
  {
    name: 'leave late submissions of ended jobs in the queue',
    changes: [inFile('workers/jobs/watcher.ts', 'if (ended.has(jobId)) strayRefs', 'if (ended.size < 0) strayRefs')],
  },
  {
    name: 'submit a missing job again that has started',
    changes: [
      inFile(
        'workers/jobs/missing-jobs.ts',
        "else if (record === 'not_ended') {",
        "else if (record === 'not_ended' && state === 'running') {",
      ),
    ],
  },
  {
    name: 'end a missing job as lost that may still run',
    changes: [
      inFile(
        'workers/jobs/missing-jobs.ts',
        'if (missingMs < missingAlarmMs) return false;\n    if (isForgotten) return true;',
        'if (missingMs >= 0) return true;\n    if (isForgotten) return true;',
      ),
    ],
  },
  {
    name: 'remove the zip of a job that waits',
    changes: [inFile('workers/cleanup.ts', '!needingInput.has(jobId) && (', '(')],
  },
  {
    name: 'fail if the files of a job were staged before',
    changes: [
      inFile(
        'files/workspaces/workspaces.ts',
        "await ignoreErrors(rename(dirname(files), workspace), 'ENOTEMPTY', 'EEXIST');",
        'await rename(dirname(files), workspace);',
      ),
    ],
  },
  {
    name: 'give up a delivery after its first failure',
    changes: [
      inFile(
        'workers/webhook-worker.ts',
        'const delayMs = result.ok ? null : retryDelayMs(delivery.tries, retrySeconds);',
        'const delayMs = result.ok || delivery.tries > 0 ? null : retryDelayMs(delivery.tries, retrySeconds);',
      ),
    ],
  },
  {
    name: 'delete files as soon as their owner is told',
    changes: [
      inFile('workers/expiry-worker.ts', 'Math.max(endedAt + retentionMs, at + noticeMs)', 'Math.max(endedAt, at)'),
      inFile('workers/expiry-worker.ts', 'endedBefore: now() - retentionMs }', 'endedBefore: now() }'),
    ],
  },
  {
    name: 'believe a cancellation that came after the end',
    changes: [
      inFile(
        'domain/jobs/end-record.ts',
        'return wasTerminated || cancelRequestedAt <= writtenAt + maxClockDifferenceMs;',
        'return wasTerminated || cancelRequestedAt <= writtenAt + 1e9;',
      ),
    ],
  },
];
