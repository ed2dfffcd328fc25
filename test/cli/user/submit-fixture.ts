import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { bursar, type CommandOutcome } from '../../support/command-line.ts';

/** Folders for the input of jobs, and the command line with the account of a user. */
export interface SubmitFixture {
  /** Creates a folder with these files. */
  folder(files: Record<string, string | Buffer>): string;
  run(...args: string[]): Promise<CommandOutcome>;
  env: Record<string, string>;
  dispose(): void;
}

export function createSubmitFixture(url: string, token: string): SubmitFixture {
  const root = mkdtempSync(join(tmpdir(), 'bursar-submit-'));
  const env = { BURSAR_URL: url, BURSAR_TOKEN: token, XDG_CONFIG_HOME: join(root, 'config') };
  let count = 0;
  return {
    folder(files) {
      const path = join(root, `input-${++count}`);
      for (const [name, content] of Object.entries(files)) {
        const file = join(path, name);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, content);
      }
      return path;
    },
    run: (...args) => bursar(args, env),
    env,
    dispose: () => rmSync(root, { recursive: true, force: true }),
  };
}
