import { createWorkspaces } from '../../../src/files/workspaces/workspaces.ts';
import { readerContract } from './reader-contract.ts';
import { hostileReaderContract } from './reader-hostile-contract.ts';

const start = async () => ({
  createWorkspaces: (root: string) => createWorkspaces(root),
  raceRounds: 300,
  close: async () => undefined,
});
readerContract('on this host', start);
hostileReaderContract('on this host', start);
