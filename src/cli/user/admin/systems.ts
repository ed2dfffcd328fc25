import type { System } from '#client';
import type { Context } from '../context.ts';
import { run as show } from '../systems.ts';

export async function list(context: Context, { name }: { name?: string }): Promise<void> {
  await show(context, { ...(name === undefined ? {} : { name }), forAdministrators: true });
}

interface PauseOptions {
  name: string;
  reason: string;
}

export async function pause(context: Context, { name, reason }: PauseOptions): Promise<void> {
  const { api } = await context.client();
  await report(context, await api.pauseSystem({ path: { hpc: name }, body: { reason }, signal: context.signal }));
}

export async function resume(context: Context, { name, reason }: PauseOptions): Promise<void> {
  const { api } = await context.client();
  await report(context, await api.resumeSystem({ path: { hpc: name }, body: { reason }, signal: context.signal }));
}

async function report(context: Context, system: System): Promise<void> {
  if (context.options.json) return await context.printJson(system);
  context.note(`${system.hpc} ${system.paused_at === null ? 'accepts jobs' : 'is paused and accepts no jobs'}.`);
}
