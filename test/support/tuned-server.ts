import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { buildFolder } from '../../bin/build-folder.mjs';
import { loadProgram } from '../../bin/load-program.mjs';
import { defaultTuning } from '../../src/composition/tuning.ts';

// `bin/bursar.mjs` with other values than those of production: the JSON in BURSAR_TEST_TUNING.

const builtProgram = join(buildFolder(), 'program.cjs');
const { runCommandLine } = existsSync(builtProgram)
  ? (loadProgram(builtProgram, process.argv[2]) as typeof import('../../src/cli/program.ts'))
  : await import('../../src/cli/program.ts');
const tuning = { ...defaultTuning, ...JSON.parse(process.env.BURSAR_TEST_TUNING ?? '{}') };
await runCommandLine(process, undefined, { tuning });
