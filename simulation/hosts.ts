import type { Broadcast } from '../src/services/events/event-feed.ts';
import type { Plan } from './plan.ts';
import { type ServerOptions, type SimulatedServer, startServer } from './server.ts';
import { randomBetween, randomNumber, type SimulatedProcess, sleep, tasks, virtualNow } from './virtual-time.ts';

/** The same for every server. */
type HostOptions = Pick<
  ServerOptions,
  'config' | 'tuning' | 'dataFolder' | 'createEngine' | 'sendWebhook' | 'onChange'
>;
export type Hosts = ReturnType<typeof createHosts>;
type Listener = Parameters<Broadcast['onNotification']>[0];

/** The hosts of the servers. A server that was killed is started again after a while. */
export function createHosts(plan: Plan, options: HostOptions) {
  const processes: (SimulatedProcess | undefined)[] = [];
  const serving: (SimulatedServer | undefined)[] = [];
  const listeners: Listener[][] = [];
  const clockOffsets = [...plan.clockOffsetsMs];

  const liveProcess = (index: number) => (processes[index]?.isDead === false ? processes[index] : undefined);

  async function runHost(index: number): Promise<void> {
    await sleep(randomBetween(1, 500));
    for (let count = 1; ; count++) {
      const { process, started, killed } = startServer({
        ...options,
        name: `s${index}.${count}`,
        clockOffsetMs: clockOffsets[index] ?? 0,
        isShared: plan.servers > 1,
        broadcast: createBroadcast(index),
      });
      processes[index] = process;
      started.then(
        (server) => {
          serving[index] = server;
        },
        (error) => process.kill(`start: ${(error as Error).message}`),
      );
      await killed;
      await sleep(randomBetween(100, 15_000));
    }
  }

  /** Hints between servers arrive late, and some never. A server that starts again has no listeners yet. */
  function createBroadcast(index: number): Broadcast {
    const own: Listener[] = [];
    listeners[index] = own;
    return {
      notify(topic, name) {
        for (const [other, receivers] of listeners.entries()) {
          const process = processes[other];
          if (other === index || process === undefined || randomNumber() < 0.1) continue;
          const deliver = () => {
            for (const receive of receivers) receive(topic, name);
          };
          tasks.run({ process, isRequest: false }, () => setTimeout(deliver, randomBetween(1, 50)));
        }
      },
      onNotification: (listener) => void own.push(listener),
    };
  }

  return {
    start() {
      for (let index = 0; index < plan.servers; index++) void runHost(index);
    },
    pickServer() {
      const alive = serving.filter((server) => server?.isDead === false);
      return alive[Math.floor(randomNumber() * alive.length)];
    },
    /** Returns false if there is no live process. */
    kill(index: number): boolean {
      const process = liveProcess(index);
      process?.kill('any time');
      return process !== undefined;
    },
    pause(index: number, ms: number): boolean {
      const process = liveProcess(index);
      if (process !== undefined) process.pausedUntil = Math.max(process.pausedUntil, virtualNow() + ms);
      return process !== undefined;
    },
    resumeAll() {
      for (const process of processes) if (process !== undefined) process.pausedUntil = 0;
    },
    changeClock(index: number, ms: number) {
      clockOffsets[index] = (clockOffsets[index] ?? 0) + ms;
      const process = processes[index];
      if (process !== undefined) process.clockOffsetMs += ms;
    },
    killAll() {
      for (const process of processes) process?.kill('the end');
    },
  };
}
