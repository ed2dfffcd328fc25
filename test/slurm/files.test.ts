import { filesSuite } from './files-suite.ts';

filesSuite('on this host', async () => ({ engine: {}, close: async () => undefined }));
