import { BursarError } from '../../../domain/errors.ts';
import type { Combination } from './parameters.ts';
import type { JobSettings } from './settings.ts';

const placeholderPattern = /\{([A-Za-z_]\w*)\}/g;

/**
 * Inserts parameters into a job. `{name}` in the command, the title, the tags and the tool's parameters becomes the value,
 * as it is: a command whose values have spaces needs quotes around the placeholder. On a tool system, a parameter of the
 * tool's own is passed to the tool. Other text in braces stays, because shells and awk use braces too.
 *
 * Throws `invalid_argument` for a parameter that nothing uses: it would change nothing about the job.
 */
export function applyParameters(
  settings: JobSettings,
  parameters: Combination,
  toolParameters: readonly string[],
): JobSettings {
  const used = new Set(Object.keys(parameters).filter((name) => toolParameters.includes(name)));
  const fill = (text: string) =>
    text.replace(placeholderPattern, (placeholder, name: string) => {
      if (!Object.hasOwn(parameters, name)) return placeholder;
      used.add(name);
      return parameters[name] ?? '';
    });
  const params: Record<string, string> = {};
  for (const [name, value] of Object.entries(parameters)) if (toolParameters.includes(name)) params[name] = fill(value);
  const { command, title, tags } = settings;
  const filled: JobSettings = {
    ...settings,
    ...(command === undefined ? {} : { command: fill(command) }),
    ...(title === undefined ? {} : { title: fill(title) }),
    ...(tags === undefined ? {} : { tags: tags.map(fill) }),
    params,
  };
  const unused = Object.keys(parameters).filter((name) => !used.has(name));
  if (unused.length > 0) throw unusedParameter(unused, settings, toolParameters);
  return filled;
}

function unusedParameter(
  unused: readonly string[],
  { tool }: JobSettings,
  toolParameters: readonly string[],
): BursarError {
  const [name = ''] = unused;
  const remedy =
    tool === undefined
      ? `Write {${name}} into the command or the title`
      : toolParameters.length === 0
        ? `The tool ${tool} has no parameters`
        : `The tool ${tool} has the parameters ${toolParameters.join(', ')}`;
  return new BursarError('invalid_argument', `Nothing uses the parameter ${unused.join(', ')}. ${remedy}.`);
}
