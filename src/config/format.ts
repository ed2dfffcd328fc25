import { stringify } from 'yaml';
import type { Config } from './schema.ts';

const hidden = '********';

/** Formats the effective configuration as a valid configuration file. Passwords and tokens are hidden. */
export function formatConfig(config: Config, format: 'yaml' | 'json'): string {
  const { database, metrics, auth } = config;
  const safeConfig = {
    ...config,
    database: { ...database, url: hidePassword(database.url) },
    auth: {
      ...auth,
      oidc: auth.oidc.map((provider) => ({
        ...provider,
        ...(provider.clientSecret === undefined ? {} : { clientSecret: hidden }),
      })),
    },
    metrics: { ...metrics, ...(metrics.token === undefined ? {} : { token: hidden.repeat(2) }) },
  };
  return format === 'json' ? `${JSON.stringify(safeConfig, null, 2)}\n` : stringify(safeConfig);
}

export function hidePassword(url: string): string {
  return url.replace(/^([a-z]+:\/\/[^:@/]*):[^/]*@/, `$1:${hidden}@`);
}
