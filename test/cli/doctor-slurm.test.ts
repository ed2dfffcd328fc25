import { doctorSuite } from './doctor-suite.ts';

doctorSuite('on this host', async () => ({ engine: {}, hostLabel: 'this host', close: async () => undefined }));
