import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { Config } from '../../src/config/schema.ts';
import type { SystemConfig } from '../../src/config/system-schema.ts';
import type { LocalSettings } from '../../src/engines/local/schema.ts';

/** The shipped systems are all on local engines. */
export type ShippedConfig = Omit<Config, 'systems'> & {
  systems: Record<string, Omit<SystemConfig, 'engine'> & { engine: LocalSettings }>;
};

/** Reads the shipped configuration file. Tests may change the result. */
export function shippedConfig(): ShippedConfig {
  return parse(readFileSync(new URL('../../config/bursar.yaml', import.meta.url), 'utf8')) as ShippedConfig;
}
