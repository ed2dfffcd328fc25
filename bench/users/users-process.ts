// Acts as many users at once: sends their requests, and listens to their events.
import { type Background, listenToEvents, repeatDownload, submitJobs } from './background.ts';
import { sendReads } from './reads.ts';
import type { UsersMessage, UsersReply } from './users.ts';

const backgrounds = new Map<number, Background<unknown>>();

process.on('message', (message: UsersMessage) => {
  const reply = (content: Omit<UsersReply, 'id'>) => process.send?.({ id: message.id, ...content });
  run(message).then(
    (result) => reply({ result }),
    (error: Error) => reply({ error: error.message }),
  );
});

async function run(message: UsersMessage): Promise<unknown> {
  switch (message.kind) {
    case 'reads':
      return await sendReads(message.load);
    case 'submissions':
      return void backgrounds.set(message.id, submitJobs(message.load));
    case 'downloads':
      return void backgrounds.set(message.id, repeatDownload(message.load));
    case 'listeners':
      return void backgrounds.set(message.id, await listenToEvents(message.load));
    case 'stop': {
      const background = backgrounds.get(message.started);
      backgrounds.delete(message.started);
      return await background?.stop();
    }
  }
}
