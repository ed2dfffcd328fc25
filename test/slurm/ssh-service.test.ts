import { serviceSuite } from './service-suite.ts';
import { sshReach } from './ssh-reach.ts';

serviceSuite('over ssh', sshReach);
