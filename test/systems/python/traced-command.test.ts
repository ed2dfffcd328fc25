import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createLocalShell } from '../../../src/shell/local-shell.ts';
import { createSpawnClient } from '../../../src/shell/spawn-client.ts';
import { generousLimits } from '../../shell/shell-contract.ts';
import { until } from '../../support/until.ts';

test('the spawn server is not replaced because of a killed command that does not end, as one that waits for a file system', async () => {
  // Only the wait for the killed command may replace the server, not a busy machine.
  const startProcess = createSpawnClient({ maxResponseMs: 600_000 });
  const shell = createLocalShell({ environment: {}, startProcess });
  const sh = (text: string, overrides = {}) => shell.run(['sh', '-c', text], generousLimits(overrides));
  const readServerPid = async () => Number((await sh('echo $PPID')).stdout);
  const server = await readServerPid();
  const file = join(tmpdir(), `bursar-traced-${process.pid}`);
  // A process cannot be waited for while another process traces it.
  const script = `
import ctypes, os, time
ptrace, prctl = ctypes.CDLL(None).ptrace, ctypes.CDLL(None).prctl
ptrace.argtypes = prctl.argtypes = [ctypes.c_long] * 4
PTRACE_SEIZE, PR_SET_PTRACER, PR_SET_PTRACER_ANY = 0x4206, 0x59616d61, -1
prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0)
traced = os.getpid()
if os.fork() == 0:
    os.setsid()
    with open('${file}.new', 'w') as out: print(os.getpid(), ptrace(PTRACE_SEIZE, traced, 0, 0), file=out)
    os.rename('${file}.new', '${file}')
    for stream in range(3): os.close(stream)
time.sleep(60)`;
  const controller = new AbortController();
  const ended = sh(`exec python3 -c "${script}"`, { signal: controller.signal, timeoutMs: 60_000 });
  const [tracer, error] = await until('the command is traced', async () => {
    const { stdout } = await sh(`cat ${file} && rm ${file}`);
    return stdout === '' ? undefined : stdout.split(' ').map(Number);
  });
  assert.equal(error, 0);
  controller.abort();
  const expected = { name: 'BursarError', code: 'unavailable', transient: true };
  await assert.rejects(ended, { ...expected, message: 'sh on this host was interrupted.' });
  process.kill(Number(tracer), 'SIGKILL');
  assert.equal(await readServerPid(), server);
});
