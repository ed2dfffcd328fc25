import { serviceSuite } from './service-suite.ts';
import { startSshAccess } from './ssh-access.ts';

serviceSuite('over ssh', startSshAccess);
