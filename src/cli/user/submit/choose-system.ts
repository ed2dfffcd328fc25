import { closest } from 'fastest-levenshtein';
import type { Bursar, System } from '#client';
import { findCommandLanguage } from '../../../engines/command-languages.ts';
import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';
import { ask, choose } from './ask.ts';
import type { JobSettings } from './settings.ts';

/** A job whose system and program are known. */
export interface TargetedSettings extends JobSettings {
  system: string;
}

/**
 * Finds the system of a job, and its command or tool. Values that are not given are filled in if there is one choice only,
 * and asked for on a terminal. Otherwise they are a usage error.
 */
export async function completeSettings(
  context: Context,
  client: Bursar,
  settings: JobSettings,
): Promise<{ settings: TargetedSettings; system: System }> {
  if (settings.command !== undefined && settings.tool !== undefined) {
    throw usageError('A job has a command or a tool, not both.', 'Leave out --command or --tool.');
  }
  const systems = await client.api.listSystems({ signal: context.signal });
  const system = await chooseSystem(context, client, settings, systems);
  const program = await chooseProgram(context, settings, system);
  return { settings: { ...settings, ...program, system: system.hpc }, system };
}

async function chooseSystem(context: Context, client: Bursar, settings: JobSettings, systems: readonly System[]) {
  const names = systems.map(({ hpc }) => hpc);
  if (settings.system !== undefined) {
    const name = settings.system.toLowerCase();
    const system = systems.find(({ hpc }) => hpc === name);
    if (system !== undefined) return system;
    const hint = `Did you mean "${closest(name, names)}"? The systems are ${names.join(', ')}.`;
    throw usageError(`There is no system "${settings.system}".`, hint);
  }
  const candidates = await narrowSystems(client, settings, systems, context.signal);
  const [only] = candidates;
  if (only !== undefined && candidates.length === 1) return only;
  const possible = (candidates.length > 0 ? candidates : systems).map(({ hpc }) => hpc);
  const name = await choose(context, 'system', possible, '--system');
  return systems.find(({ hpc }) => hpc === name) ?? systems[0] ?? fail();
}

/** The systems that have the project and can run the program. */
async function narrowSystems(
  client: Bursar,
  { project, command, tool }: JobSettings,
  systems: readonly System[],
  signal: AbortSignal,
): Promise<System[]> {
  const fitting = systems.filter(
    ({ kind, tools }) =>
      (command === undefined || kind === 'batch') &&
      (tool === undefined || (kind === 'tool' && tools.some(({ name }) => name === tool))),
  );
  if (project === undefined || fitting.length < 2) return fitting;
  const { projects } = await client.api.getMe({ signal });
  const hosts = projects.filter(({ project_name }) => project_name === project).map(({ project_hpc }) => project_hpc);
  return fitting.filter(({ project_hpc }) => hosts.includes(project_hpc));
}

async function chooseProgram(context: Context, { command, tool }: JobSettings, system: System) {
  if (system.kind === 'batch') {
    if (tool !== undefined) throw usageError(`${system.hpc} runs commands, not tools.`, 'Use --command instead.');
    const { example } = findCommandLanguage(system.command_language);
    return { command: command ?? (await ask(context, `command, such as "${example}"`, '--command')) };
  }
  const names = system.tools.map(({ name }) => name);
  if (command !== undefined) {
    const hint = `Use --tool with one of ${names.join(', ')}, or another --system.`;
    throw usageError(`${system.hpc} runs tools, not commands.`, hint);
  }
  const [first = ''] = names;
  if (tool === undefined) return { tool: names.length === 1 ? first : await choose(context, 'tool', names, '--tool') };
  if (names.includes(tool)) return { tool };
  const hint = `Did you mean "${closest(tool, names)}"? The tools are ${names.join(', ')}.`;
  throw usageError(`${system.hpc} has no tool "${tool}".`, hint);
}

function fail(): never {
  throw usageError('The server has no HPC system.');
}
