import type { Command } from 'commander';
import { runs } from '../run-command.ts';
import { userCommand } from '../user-command.ts';

/** Adds the commands about events and webhooks. */
export function eventCommands(program: Command): void {
  eventOptions(userCommand(program, 'events', 'list what has happened to your jobs and quotas')).action(
    runs(() => import('./events.ts')),
  );
  const webhooks = userCommand(program, 'webhooks', 'list the webhooks that get your events, and change them');
  const load = () => import('./webhooks.ts');
  webhooks.action(runs(load, 'list'));
  userCommand(webhooks, 'show <id>', 'show a webhook').action(runs(load, 'show'));
  userCommand(webhooks, 'create <url>', 'send events to a URL; prints the secret that signs them once')
    .option('--events <list>', 'event types, such as "job.ended quota.threshold"', '*')
    .option('--description <text>', 'free text for your own use')
    .action(runs(load, 'create'));
  userCommand(webhooks, 'change <id>', 'change a webhook')
    .option('--url <url>', 'another URL')
    .option('--events <list>', 'other event types; "*" for all')
    .option('--description <text>', 'another description')
    .option('--enable', 'enable it again')
    .action(runs(load, 'change'));
  userCommand(webhooks, 'delete <id>', 'delete a webhook').action(runs(load, 'remove'));
  userCommand(webhooks, 'rotate-secret <id>', 'create a new secret; the old one also signs for another day').action(
    runs(load, 'rotateSecret'),
  );
  userCommand(webhooks, 'test <id>', 'send a test event').action(runs(load, 'test'));
  userCommand(webhooks, 'deliveries <id>', 'list the deliveries of a webhook, newest first')
    .option('--limit <number>', 'how many', '50')
    .action(runs(load, 'deliveries'));
  userCommand(webhooks, 'resend <id> <delivery>', 'send a delivery again').action(runs(load, 'resend'));
}

export function eventOptions(command: Command): Command {
  return command
    .option('-f, --follow', 'print new events as they happen, until Ctrl-C')
    .option('--after <id>', 'only events after this one')
    .option('--limit <number>', 'only the newest ones');
}
