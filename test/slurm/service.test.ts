import { serviceSuite } from './service-suite.ts';

serviceSuite('on this host', async () => ({ engine: {}, close: async () => undefined }));
