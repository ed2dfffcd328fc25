import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { createDemoData, type DemoData, startDemoServer } from '../support/demo-data.ts';
import { firstUsers } from '../support/server.ts';
import type { ServerProcess } from '../support/server-process.ts';
import { expectAccessible, launchBrowser, type WebBrowser } from '../support/web-page.ts';
import { listPages, type PageOfWebPage } from '../support/web-pages.ts';

let server: ServerProcess;
let browser: WebBrowser;
let demo: DemoData;
let pages: PageOfWebPage[];

before(async () => {
  [server, browser] = await Promise.all([startDemoServer(), launchBrowser()]);
  demo = await createDemoData(server);
  pages = listPages(demo);
});

after(async () => {
  await browser?.close();
  // It would run on for hours.
  await demo?.running.cancel();
  await demo?.running.wait();
  await server?.dispose();
});

/** A page is loaded once: narrow and dark, because all other tests load their pages wide and light. */
const appearances = [
  { name: 'narrow and dark', colorScheme: 'dark', width: 360 },
  { name: 'wide and light', colorScheme: 'light', width: 1280 },
] as const;

for (const user of Object.values(firstUsers)) {
  test(`every page of user ${user} is accessible and fits`, async (t) => {
    const window = await browser.open(server, user, appearances[0]);
    for (const page of pages.filter((each) => each.user === user)) {
      for (const appearance of appearances)
        await t.test(`${page.name}, ${appearance.name}`, async () => {
          await window.emulateMedia({ colorScheme: appearance.colorScheme });
          await window.setViewportSize({ width: appearance.width, height: 900 });
          if (appearance === appearances[0]) await loadPage(window, page);
          await checkPage(window);
        });
    }
    await window.context().close();
  });
}

async function loadPage(window: Page, { path, shows, prepare }: PageOfWebPage): Promise<void> {
  await window.goto(`/app/${path}`);
  await window.getByText(shows).filter({ visible: true }).first().waitFor();
  await prepare?.(window);
}

async function checkPage(window: Page): Promise<void> {
  await expectAccessible(window);
  const [width, limit] = await window.evaluate(() => [document.documentElement.scrollWidth, innerWidth] as const);
  assert.ok(width <= limit, `the page is ${width} pixels wide, its window ${limit}`);
  assert.match(await window.title(), / · Bursar$/);
}
