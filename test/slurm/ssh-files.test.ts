import { filesSuite } from './files-suite.ts';
import { sshReach } from './ssh-reach.ts';

filesSuite('over ssh', sshReach);
