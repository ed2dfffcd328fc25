import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { Config } from '../../src/config/schema.ts';
import type { LocalEngineConfig, SystemConfig } from '../../src/config/system-schema.ts';

/** The shipped systems are all on local engines. */
export type ShippedConfig = Omit<Config, 'systems'> & {
  systems: Record<string, Omit<SystemConfig, 'engine'> & { engine: LocalEngineConfig }>;
};

/** The configuration that Bursar is shipped with, as it stands in its file, to be changed for a test. */
export function shippedConfig(): ShippedConfig {
  return parse(readFileSync(new URL('../../config/bursar.yaml', import.meta.url), 'utf8')) as ShippedConfig;
}
