import { stringify } from 'yaml';
import type { Config } from './schema.ts';

/** What is in force, as a configuration file that could be used again; passwords in addresses are hidden. */
export function formatConfig(config: Config, format: 'yaml' | 'json'): string {
  const shown = { ...config, database: { ...config.database, url: hidePassword(config.database.url) } };
  return format === 'json' ? `${JSON.stringify(shown, null, 2)}\n` : stringify(shown);
}

export function hidePassword(url: string): string {
  return url.replace(/^([a-z]+:\/\/[^:@/]*):[^@/]*@/, '$1:********@');
}
