import { filesSuite } from './files-suite.ts';
import { startSshAccess } from './ssh-access.ts';

filesSuite('over ssh', startSshAccess);
