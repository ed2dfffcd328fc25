import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { createDemoData, type DemoData, startDemoServer } from '../../support/demo-data.ts';
import { firstUsers } from '../../support/server.ts';
import type { ServerProcess } from '../../support/server-process.ts';
import { expectAccessible, launchBrowser, type WebBrowser } from '../../support/web-page.ts';
import { listPages, type PageOfWebPage } from '../../support/web-pages.ts';

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
  try {
    await browser?.close();
  } finally {
    // It would run on for hours.
    await demo?.running.cancel();
    await demo?.running.wait();
    await server?.dispose();
  }
});

/** A page is loaded once: narrow and dark, because all other tests load their pages wide and light. */
const appearances = [
  { name: 'narrow and dark', colorScheme: 'dark', width: 360 },
  { name: 'wide and light', colorScheme: 'light', width: 1280 },
] as const;

/** The routes and tabs that were opened, such as `/account?tab=tokens`, and those that the router and the pages have. */
const opened = new Set<string>();
const offered = new Set<string>();

for (const user of Object.values(firstUsers)) {
  test(`every page of user ${user} is accessible and fits, and can be left by its links`, async (t) => {
    const window = await browser.open(server, user, appearances[0]);
    for (const page of pages.filter((each) => each.user === user)) {
      for (const appearance of appearances)
        await t.test(`${page.name}, ${appearance.name}`, async () => {
          await window.emulateMedia({ colorScheme: appearance.colorScheme });
          await window.setViewportSize({ width: appearance.width, height: 900 });
          if (appearance === appearances[0]) await loadPage(window, page);
          await checkPage(window);
        });
      await t.test(`${page.name}, left by links`, async () => {
        opened.add(await readView(window));
        for (const view of await readViews(window)) offered.add(view);
        await leavePage(window, page);
      });
    }
    await window.context().close();
  });
}

test('the pages above are all routes of the router, and all tabs', () => {
  assert.deepEqual([...opened].sort(), [...opened.union(offered)].sort());
});

async function loadPage(window: Page, { path, shows, prepare }: PageOfWebPage): Promise<void> {
  await window.goto(`/app/${path}`);
  await expectText(window, shows);
  await prepare?.(window);
}

const expectText = (window: Page, text: string | RegExp) =>
  window.getByText(text).filter({ visible: true }).first().waitFor();

async function checkPage(window: Page): Promise<void> {
  await expectAccessible(window);
  const [width, limit] = await window.evaluate(() => [document.documentElement.scrollWidth, innerWidth] as const);
  assert.ok(width <= limit, `the page is ${width} pixels wide, its window ${limit}`);
  assert.match(await window.title(), / · Bursar$/);
  // The API has the names of systems in capitals in some fields. People read and write them in one form.
  assert.doesNotMatch(await window.locator('body').innerText(), /HPC_(ONE|TWO)/);
  await checkMarkedLinks(window);
}

/** A link is marked if it leads to this address. A tab may have filters of its own, and the navigation has pages below. */
async function checkMarkedLinks(window: Page): Promise<void> {
  const [wrong, marks] = await window.evaluate(() => {
    const marked = [...document.querySelectorAll('a[aria-current]')] as HTMLAnchorElement[];
    const navigations = [...document.querySelectorAll('nav')];
    return [
      marked.filter((link) => link.closest('nav') === null && link.href !== location.href).map(({ text }) => text),
      navigations.map((nav) => [nav.ariaLabel, nav.querySelectorAll('a[aria-current]').length] as const),
    ] as const;
  });
  assert.deepEqual(wrong, [], 'links to other pages that are marked as this one');
  for (const [name, count] of marks)
    assert.ok(count <= 1, `${count} links of "${name}" are marked as the present page`);
}

/** The parts of the router that the test uses. It is a property of the window for its developer tools. */
interface PageRouter {
  routesByPath: Record<string, unknown>;
  state: {
    matches: { fullPath: string }[];
    location: { href: string; search: { tab?: string } };
    /** The address of the page that is shown. */
    resolvedLocation?: { href: string };
  };
}

const viewOf = (path: string, tab: string | null | undefined) => (tab ? `${path}?tab=${tab}` : path);

/** The route and the tab of the page. */
async function readView(window: Page): Promise<string> {
  const [path, tab] = await window.evaluate(() => {
    const { matches, location } = (globalThis as unknown as { __TSR_ROUTER__: PageRouter }).__TSR_ROUTER__.state;
    return [matches.at(-1)?.fullPath ?? '', location.search.tab] as const;
  });
  return viewOf(path, tab);
}

/** All routes of the router, and the tabs of this page. */
async function readViews(window: Page): Promise<string[]> {
  const [paths, tabs] = await window.evaluate(() => {
    const router = (globalThis as unknown as { __TSR_ROUTER__: PageRouter }).__TSR_ROUTER__;
    const links = [...document.querySelectorAll<HTMLAnchorElement>('main nav a')];
    const own = links.map(({ href }) => new URL(href)).filter(({ pathname }) => pathname === location.pathname);
    return [Object.keys(router.routesByPath), own.map(({ searchParams }) => searchParams.get('tab'))] as const;
  });
  const path = (await readView(window)).split('?')[0] ?? '';
  // The address without a path leads to the jobs.
  return [...paths.filter((each) => each !== '/'), ...tabs.map((tab) => viewOf(path, tab))];
}

/** Opens another tab of the page, if it has tabs, and another page, and comes back from each of them. */
async function leavePage(window: Page, { shows }: PageOfWebPage): Promise<void> {
  const otherTab = window.locator('main nav a:not([aria-current])').first();
  const otherPage = window.locator('nav[aria-label="Pages"] a:not([aria-current])').first();
  for (const link of [otherTab, otherPage]) {
    if ((await link.count()) === 0) continue;
    const address = window.url();
    await link.click();
    await window.waitForURL((url) => url.href !== address);
    await expectNoError(window);
    await window.goBack();
    await window.waitForURL(address);
    await expectNoError(window);
    await expectText(window, shows);
  }
}

/** Waits until the page of the address is shown. */
async function expectNoError(window: Page): Promise<void> {
  await window.waitForFunction(() => {
    const { location, resolvedLocation } = (globalThis as unknown as { __TSR_ROUTER__: PageRouter }).__TSR_ROUTER__
      .state;
    return resolvedLocation?.href === location.href;
  });
  const error = window.getByRole('alert');
  await window.locator('main h1').or(error).first().waitFor();
  assert.deepEqual(await error.allInnerTexts(), [], `errors at ${window.url()}`);
}
