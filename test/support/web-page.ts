import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { formFields } from './browser.ts';
import type { TestServer } from './server.ts';
import { createLink } from './sign-in.ts';

export interface WebPageOptions {
  /** The path under /app/. Default: the jobs. */
  path?: string;
  colorScheme?: 'light' | 'dark';
  width?: number;
  height?: number;
}

/** The headless shell of Debian's Chromium, for all tests of a file. Files in one process share the program. */
export interface WebBrowser {
  browser: Browser;
  /** Opens the web page in a window of its own, signed in by a link as a user. */
  open(server: TestServer, user: string, options?: WebPageOptions): Promise<Page>;
  /** Opens a window without a session. */
  openAnonymous(server: TestServer, options?: WebPageOptions): Promise<Page>;
  /** Closes all windows. Throws if a page has violated its content security policy, or has thrown an error. */
  close(): Promise<void>;
}

/** The running program, and how many test files use it. */
let running: Promise<Browser> | undefined;
let users = 0;
/** The next file of this process starts at once, if there is one. */
const closeDelayMs = 1000;

function useBrowser(): Promise<Browser> {
  users += 1;
  running ??= chromium.launch({
    executablePath: '/usr/bin/chromium-headless-shell',
    timeout: 120_000,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
  });
  return running;
}

function releaseBrowser(): void {
  users -= 1;
  setTimeout(() => {
    if (users > 0) return;
    const browser = running;
    running = undefined;
    browser?.then((program) => program.close());
  }, closeDelayMs);
}

const toAddress = (path = '') => `/app/${path.replace(/^\//, '')}`;

export async function launchBrowser(): Promise<WebBrowser> {
  const browser = await useBrowser();
  const contexts: BrowserContext[] = [];
  const problems: string[] = [];

  async function openWindow(server: TestServer, options: WebPageOptions): Promise<[BrowserContext, Page]> {
    const { colorScheme = 'light', width = 1280, height = 900 } = options;
    const viewport = { width, height };
    const common = { viewport, locale: 'en-GB', reducedMotion: 'reduce' } as const;
    const context = await browser.newContext({ baseURL: server.url, colorScheme, ...common });
    contexts.push(context);
    // A busy machine is slow; a test that hangs still ends.
    context.setDefaultTimeout(120_000);
    const page = await context.newPage();
    page.on('pageerror', (error) => problems.push(`${page.url()}: ${error.stack ?? error.message}`));
    page.on('console', (message) => {
      // A refused request, which Chromium reports as an error too, is no fault of the page.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
        problems.push(`${page.url()}: ${message.text()}`);
    });
    page.on('request', (request) => {
      const { origin } = new URL(server.url);
      // The pages of an OpenID provider load what they want.
      const isOurs = !request.isNavigationRequest() && request.frame().url().startsWith(origin);
      if (isOurs && !request.url().startsWith('blob:') && !request.url().startsWith(origin))
        problems.push(`${page.url()}: request to another host: ${request.url()}`);
    });
    return [context, page];
  }

  return {
    browser,
    async open(server, user, options = {}) {
      const [context, page] = await openWindow(server, options);
      // Requests that share the cookies of the window: two pages less are loaded.
      const link = await context.request.get(await createLink(server, user));
      const headers = { origin: new URL(server.url).origin };
      await context.request.post('/sign-in/', { form: formFields(await link.text()), headers, maxRedirects: 0 });
      await page.goto(toAddress(options.path));
      await page.getByRole('navigation', { name: 'Pages', exact: true }).waitFor();
      return page;
    },
    async openAnonymous(server, options = {}) {
      const [, page] = await openWindow(server, options);
      await page.goto(toAddress(options.path));
      return page;
    },
    async close() {
      await Promise.all(contexts.map((context) => context.close()));
      releaseBrowser();
      assert.deepEqual(problems, [], 'faults of the web page');
    },
  };
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Fails if axe finds a violation of the accessibility rules on the page as it is now. */
export async function expectAccessible(page: Page): Promise<void> {
  // Not as a script element, which the content security policy forbids.
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axeSource);
  const violations = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(): Promise<{ violations: AxeViolation[] }> } };
    const results = await axe.run();
    return results.violations.map(({ id, help, nodes }) => ({ id, help, targets: nodes.map((node) => node.html) }));
  });
  assert.deepEqual(violations, [], `accessibility of ${page.url()}`);
}

interface AxeViolation {
  id: string;
  help: string;
  nodes: { html: string }[];
}
