import { describe } from 'node:test';
import { filesSuite } from './files-suite.ts';
import { serviceSuite } from './service-suite.ts';
import { startSshAccess } from './ssh-access.ts';

// The suites mostly wait for Slurm. Each has its own sshd, server and partition, so that they can run at the same time.
describe('Bursar with Slurm over ssh', { concurrency: true }, () => {
  serviceSuite('over ssh', startSshAccess);
  filesSuite('over ssh', startSshAccess);
});
