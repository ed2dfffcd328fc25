import { describe } from 'node:test';
import { eventsSuite } from './events-suite.ts';
import { filesSuite } from './files-suite.ts';
import { serviceSuite } from './service-suite.ts';

const useLocalCommands = async () => ({ engine: {}, close: async () => undefined });

// The suites mostly wait for Slurm. Each has its own server and partition, so that they can run at the same time.
describe('Bursar with Slurm on this host', { concurrency: true }, () => {
  serviceSuite('on this host', useLocalCommands);
  filesSuite('on this host', useLocalCommands);
  eventsSuite();
});
