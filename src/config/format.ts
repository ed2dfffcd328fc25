import { stringify } from 'yaml';
import { mapLeaves, referencesKey, referenceTags } from './references.ts';
import type { Config } from './schema.ts';

const hidden = '********';

/** Settings that are secrets as a whole. */
const secretPaths = /^(metrics\.token|oidc\.\d+\.clientSecret|webhooks\.secretKey|tracing\.headers\..*)$/;

/** Formats the effective configuration as a valid configuration file, with references, and without passwords and tokens. */
export function formatConfig(config: Config, format: 'yaml' | 'json'): string {
  const references = config[referencesKey]?.byPath;
  const safeConfig = mapLeaves(config, (value, path) => references?.get(path) ?? hideSecret(value, path));
  if (format === 'json') return `${JSON.stringify(safeConfig, null, 2)}\n`;
  return stringify(safeConfig, { customTags: referenceTags });
}

function hideSecret(value: unknown, path: string): unknown {
  if (typeof value !== 'string') return value;
  // Twice, because a token has a minimum length.
  return secretPaths.test(path) ? hidden.repeat(2) : hidePassword(value);
}

/** Applied to every setting, not only to the address of the database: no URL is shown with its password. */
export function hidePassword(url: string): string {
  return url.replace(/^([a-z]+:\/\/[^:@/]*):[^/]*@/, `$1:${hidden}@`);
}
