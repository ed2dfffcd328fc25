import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { createDemoData, startDemoServer } from '../support/demo-data.ts';
import { firstUsers } from '../support/server.ts';
import type { ServerProcess } from '../support/server-process.ts';
import { expectAccessible, launchBrowser, type WebBrowser } from '../support/web-page.ts';
import { listPages, type PageOfWebPage } from '../support/web-pages.ts';

let server: ServerProcess;
let browser: WebBrowser;
let pages: PageOfWebPage[];

before(async () => {
  [server, browser] = await Promise.all([startDemoServer(), launchBrowser()]);
  pages = listPages(await createDemoData(server));
});

after(async () => {
  await browser?.close();
  await server?.dispose();
});

const windows = [
  { name: 'wide and light', colorScheme: 'light', width: 1280 },
  { name: 'narrow and dark', colorScheme: 'dark', width: 360 },
] as const;

for (const { name, ...options } of windows) {
  for (const user of Object.values(firstUsers)) {
    test(`every page of user ${user} is accessible and fits, ${name}`, async (t) => {
      const window = await browser.open(server, user, options);
      for (const page of pages.filter((each) => each.user === user)) {
        await t.test(page.name, () => checkPage(window, page));
      }
      await window.context().close();
    });
  }
}

async function checkPage(window: Page, { path, shows, prepare }: PageOfWebPage): Promise<void> {
  await window.goto(`/app/${path}`);
  await window.getByText(shows).filter({ visible: true }).first().waitFor();
  await prepare?.(window);
  await expectAccessible(window);
  const [width, limit] = await window.evaluate(() => [document.documentElement.scrollWidth, innerWidth] as const);
  assert.ok(width <= limit, `the page is ${width} pixels wide, its window ${limit}`);
  assert.match(await window.title(), / · Bursar$/);
}
