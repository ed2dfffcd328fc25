import { spawn } from 'node:child_process';
import type { Context } from '../context.ts';

/** Opens a page in the browser of the user: that of the variable BROWSER, or the one of the desktop. */
export function openBrowser({ env, note }: Pick<Context, 'env' | 'note'>, address: string): void {
  // The address comes from a server. Another scheme would start another program.
  if (!/^https?:\/\//.test(address)) return;
  const program = env.BROWSER || (process.platform === 'darwin' ? 'open' : 'xdg-open');
  const child = spawn(program, [address], { stdio: 'ignore', detached: true });
  child.once('error', () => note(`No browser could be started (${program}). Open the address yourself.`));
  child.unref();
}
