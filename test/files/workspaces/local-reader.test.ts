import { createWorkspaces } from '../../../src/files/workspaces/workspaces.ts';
import { isLongRun } from '../../support/long-run.ts';
import { readerContract } from './reader-contract.ts';
import { hostileReaderContract } from './reader-hostile-contract.ts';

const start = async () => ({
  createWorkspaces: (root: string) => createWorkspaces(root),
  raceRounds: isLongRun ? 300 : 100,
  close: async () => undefined,
});
readerContract('on this host', start);
hostileReaderContract('on this host', start);
