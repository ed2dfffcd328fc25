import { stringify } from 'yaml';
import { mapTexts, referencesKey } from './references.ts';
import type { Config } from './schema.ts';
import { escapeTemplate, hidePasswordInTemplate, isOnlyReferences, parseTemplate } from './template.ts';

const hidden = '********';

/** Settings that are secrets as a whole. */
const secretPaths = /^(metrics\.token|auth\.oidc\.\d+\.clientSecret|secrets\.keys\.\d+\.key|tracing\.headers\..*)$/;

/**
 * Formats the effective configuration as a valid configuration file. Passwords and tokens are hidden. A value that comes from
 * a reference is never shown, but the reference is.
 */
export function formatConfig(config: Config, format: 'yaml' | 'json'): string {
  const templates = config[referencesKey]?.templates;
  const safeConfig = mapTexts(config, (value, path) => formatText(value, path, templates?.get(path)));
  return format === 'json' ? `${JSON.stringify(safeConfig, null, 2)}\n` : stringify(safeConfig);
}

function formatText(value: string, path: string, reference: string | undefined): string {
  const isSecret = secretPaths.test(path);
  // Twice, because a token has a minimum length.
  if (reference === undefined) return isSecret ? hidden.repeat(2) : escapeTemplate(hidePassword(value));
  const template = parseTemplate(reference);
  if (isSecret) return isOnlyReferences(template) ? reference : hidden.repeat(2);
  return hidePasswordInTemplate(template, hidden);
}

/** Also in other settings than the address of the database: a URL with a password is never shown. */
export function hidePassword(url: string): string {
  return url.replace(/^([a-z]+:\/\/[^:@/]*):[^/]*@/, `$1:${hidden}@`);
}
