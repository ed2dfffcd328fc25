import { BursarError } from '../../../domain/errors.ts';
import type { Combination } from './parameters.ts';
import type { JobSettings } from './settings.ts';

const placeholderPattern = /\{([A-Za-z_]\w*)\}/g;

/**
 * Inserts parameters into a job. `{name}` in the command, the title, the tags and the tool's parameters becomes the value,
 * as it is: a command whose values have spaces needs quotes around the placeholder. On a tool system, a parameter of the
 * tool's own is passed to the tool. Other text in braces stays, because shells and awk use braces too.
 *
 * Throws `invalid_argument` for a parameter that does not reach the program of the job. The title and the tags do not count:
 * a sweep whose values are only there would run the same job again and again.
 */
export function applyParameters(
  settings: JobSettings,
  parameters: Combination,
  toolParameters: readonly string[],
): JobSettings {
  const used = new Set(Object.keys(parameters).filter((name) => toolParameters.includes(name)));
  const label = (text: string) =>
    text.replace(placeholderPattern, (placeholder, name: string) =>
      Object.hasOwn(parameters, name) ? (parameters[name] ?? '') : placeholder,
    );
  const fill = (text: string) => {
    for (const [, name = ''] of text.matchAll(placeholderPattern)) used.add(name);
    return label(text);
  };
  const params: Record<string, string> = {};
  for (const [name, value] of Object.entries(parameters)) if (toolParameters.includes(name)) params[name] = fill(value);
  const { command, title, tags } = settings;
  const filled: JobSettings = {
    ...settings,
    ...(command === undefined ? {} : { command: fill(command) }),
    ...(title === undefined ? {} : { title: label(title) }),
    ...(tags === undefined ? {} : { tags: tags.map(label) }),
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
  const [first] = toolParameters;
  const remedy =
    tool === undefined
      ? `Write {${name}} into the command`
      : first === undefined
        ? `The tool ${tool} has no parameters`
        : `The tool ${tool} has the parameters ${toolParameters.join(', ')}: pass it by --param ${first}="{${name}}"`;
  return new BursarError('invalid_argument', `Nothing uses the parameter ${unused.join(', ')}. ${remedy}.`);
}
