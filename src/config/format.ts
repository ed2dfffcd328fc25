import { stringify } from 'yaml';
import type { Config } from './schema.ts';

/** Formats the effective configuration as a valid configuration file. The database password is hidden. */
export function formatConfig(config: Config, format: 'yaml' | 'json'): string {
  const safeConfig = { ...config, database: { ...config.database, url: hidePassword(config.database.url) } };
  return format === 'json' ? `${JSON.stringify(safeConfig, null, 2)}\n` : stringify(safeConfig);
}

export function hidePassword(url: string): string {
  return url.replace(/^([a-z]+:\/\/[^:@/]*):[^/]*@/, '$1:********@');
}
