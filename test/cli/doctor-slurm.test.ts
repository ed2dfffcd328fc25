import { doctorSuite } from './doctor-suite.ts';

doctorSuite('on this host', async () => ({ engine: {}, place: 'this host', close: async () => undefined }));
