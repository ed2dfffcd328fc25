import { localTest } from '../../../engines/local/harness.ts';
import { localSandbox } from '../../../support/bubblewrap.ts';

/** Runs a test with jobs that are not isolated, and with isolated ones. */
export function localTestWithAndWithoutIsolation(...[title, options, body]: Parameters<typeof localTest>): void {
  localTest(title, options, body);
  localTest(`${title} (isolated)`, { ...options, sandbox: localSandbox() }, body);
}
