import { testKilledServer } from './kill-suite.ts';

testKilledServer('a server that is killed repeatedly during submissions', {
  rounds: 15,
  clients: 3,
  maxLifetimeMs: 500,
  submitIntervalMs: 50,
});
