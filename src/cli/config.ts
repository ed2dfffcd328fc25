import { printConfig } from '../config/print.ts';
import type { Config } from '../config/schema.ts';

export function checkConfiguration(config: Config): void {
  const systems = Object.keys(config.systems).join(', ');
  process.stdout.write(`The configuration is valid. Systems: ${systems}.\n`);
}

export function showConfiguration(config: Config, options: { json: boolean }): void {
  process.stdout.write(printConfig(config, options.json ? 'json' : 'yaml'));
}
