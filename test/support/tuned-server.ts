import { parseArgs } from 'node:util';
import { createOperator } from '../../src/cli/operator/operator.ts';
import { serve } from '../../src/cli/operator/server/serve.ts';
import { version } from '../../src/cli/run-program.ts';
import type { Role } from '../../src/composition/database.ts';
import { defaultTuning } from '../../src/composition/tuning.ts';

// `bursar serve` with other values than those of production: the JSON in BURSAR_TEST_TUNING.

const options = { role: { type: 'string', default: 'all' }, 'stop-with-parent': { type: 'boolean' } } as const;
const { role } = parseArgs({ args: process.argv.slice(3), options }).values;
const tuning = { ...defaultTuning, ...JSON.parse(process.env.BURSAR_TEST_TUNING ?? '{}') };
const operator = createOperator(process);
operator.protectFiles();
await serve(await operator.context(), { role: role as Role, stopWithParent: true }, version, { tuning });
