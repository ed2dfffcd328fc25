import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { launchBrowser } from '../../test/support/web-page.ts';
import type { Bench, Benchmark } from '../benchmark.ts';
import { readerId, startWithJobs } from '../bursar.ts';

/**
 * Measures what the user of the web page waits for, in a real browser, beside a static page with a table of as many rows: until the
 * largest part of the page is shown (LCP), and from a click until the page shows its effect.
 */
export const webVitals: Benchmark = {
  name: 'web-vitals',
  requires: ['Chromium'],
  async run(bench) {
    const { bursar } = await startWithJobs(bench, bench.size.listedJobs);
    const browser = await launchBrowser();
    bench.defer(() => browser.close());
    const page = await browser.open(bursar, readerId, { path: 'jobs' });
    const staticUrl = await startStaticPage(bench);
    const staticPage = await page.context().newPage();
    const stored = `${bench.size.listedJobs.toLocaleString('en')} stored jobs`;

    await bench.compareFigures({
      rows: [
        {
          scenario: `page of jobs, ${stored}: largest paint`,
          baseline: 'static page',
          unit: 'ms',
          threshold: { aim: 10 },
        },
        {
          scenario: 'page of jobs: a click until its effect',
          baseline: 'static page',
          unit: 'ms',
          threshold: { aim: 3 },
        },
      ],
      ours: () => measureVitals(page, `${bursar.url}/app/jobs`, 'tbody a'),
      theirs: () => measureVitals(staticPage, staticUrl, 'tbody td'),
    });
  },
};

/** The largest paint after a load, and the median time from a click on a checkbox until the next paint, in milliseconds. */
async function measureVitals(page: Page, url: string, content: string): Promise<[number, number]> {
  // A page in the background is not painted.
  await page.bringToFront();
  await page.goto(url);
  await page.locator(content).first().waitFor();
  const largestPaint = await page.evaluate(
    `new Promise((resolve) => new PerformanceObserver((list) => resolve(list.getEntries().at(-1).startTime))
      .observe({ type: 'largest-contentful-paint', buffered: true }))`,
  );
  const clickMs: number[] = [];
  const box = page.locator('tbody input[type=checkbox]').first();
  for (let n = 0; n < 9; n++) {
    // The page has painted the effect of the click when the frame after the next one begins.
    await page.evaluate(`void (globalThis.painted = new Promise((resolve) => addEventListener('click', () => {
      const startedAt = performance.now();
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - startedAt)));
    }, { once: true, capture: true })))`);
    await box.click();
    clickMs.push(Number(await page.evaluate('globalThis.painted')));
  }
  clickMs.sort((a, b) => a - b);
  return [Number(largestPaint), clickMs[4] ?? 0];
}

/** The least that a browser can do for a list: no script but the one that reacts to a click. */
async function startStaticPage(bench: Bench): Promise<string> {
  const rows = Array.from({ length: 50 }, (_, n) => `<tr><td><input type="checkbox"><td>Job ${n}<td>running</tr>`);
  const script = `addEventListener('change', (event) => event.target.closest('tr').toggleAttribute('data-selected'))`;
  const html = `<!doctype html><title>Jobs</title><h1>Jobs</h1><table><tbody>${rows.join('')}</table><script>${script}</script>`;
  const server = createServer((_request, response) => response.setHeader('content-type', 'text/html').end(html));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  bench.defer(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}
