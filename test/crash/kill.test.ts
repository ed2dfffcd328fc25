import { killStorm } from './kill-storm.ts';

killStorm('a server that is killed again and again in the middle of submissions', {
  rounds: 15,
  clients: 3,
  livesMs: 500,
  everyMs: 0,
});
