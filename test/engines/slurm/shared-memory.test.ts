import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { setVariables } from '../../../src/engines/batch/shell-program.ts';
import { stepsProgram, stepVariables } from '../../../src/engines/slurm/steps.ts';
import { temporaryFolder } from '../../files/temporary.ts';
import { isLongRun } from '../../support/long-run.ts';

const run = promisify(execFile);
const rounds = isLongRun ? 50 : 6;

test('tasks of many jobs that start and end on one node never remove the folder of each other', async (t) => {
  const folder = await temporaryFolder(t);
  const task = `
    ${setVariables({ ...stepVariables('', { scheduler: false }), shared_memory_prefix: `${folder}/job-` })}
    ${stepsProgram}
    shared=$1
    share_memory
    [ -n "$shared" ] || { echo 'no folder'; exit; }
    touch "$shared/files/file" || echo 'removed before its use'
    [ -e "$shared/files/file" ] || echo 'removed'
    remove_if_unused "$lock" "$shared" || true`;
  const startTasks = async (job: number) => {
    let output = '';
    for (let count = 0; count < rounds; count++)
      output += (await run('bash', ['-c', task, 'bash', join(folder, `job-${job}`)])).stdout;
    return output;
  };
  // Two of the jobs have two tasks on this node.
  const outputs = await Promise.all([1, 2, 3, 4, 1, 2].map(startTasks));
  assert.equal(outputs.join(''), '');
  assert.deepEqual(await readdir(folder), []);
});
