/** Ctrl-C arrives twice within milliseconds under npm: once from the terminal, and once passed on by npm. */
const repeatedSignalMs = 1000;
const parentCheckMs = 500;

/**
 * Resolves with the reason to stop: SIGTERM, SIGINT or, with `parent`, the end of the parent process: npm passes on these signals,
 * but not those that kill npm itself. A later signal exits at once.
 */
export function waitForStopReason(parent: number | undefined): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  let firstSignalAt: number | undefined;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      firstSignalAt ??= performance.now();
      if (performance.now() - firstSignalAt > repeatedSignalMs) process.exit(130);
      resolve(signal);
    });
  }
  if (parent !== undefined) {
    const check = setInterval(() => {
      if (process.ppid === parent) return;
      clearInterval(check);
      resolve('the process that started the server has ended');
    }, parentCheckMs).unref();
  }
  return promise;
}
