import { isLongRun } from '../../support/long-run.ts';
import { testKilledServer } from './kill-suite.ts';

testKilledServer('a server that is killed repeatedly during submissions', {
  rounds: isLongRun ? 15 : 4,
  clients: 3,
  maxLifetimeMs: 500,
  submitIntervalMs: 50,
});
