// `npm run screenshots [-- <folder> [<page>…]]`: takes pictures of every page of the web page, or of these, light and dark,
// wide and narrow, on a server with example data. Needs Chromium's headless shell.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createDemoData, type DemoData, startDemoServer } from '../test/support/demo-data.ts';
import { launchBrowser } from '../test/support/web-page.ts';
import { listPages } from '../test/support/web-pages.ts';

const [, , folder = 'screenshots', ...names] = process.argv;
const widths = { wide: 1280, narrow: 390 };

mkdirSync(folder, { recursive: true });
const [server, browser] = await Promise.all([startDemoServer(), launchBrowser()]);
let demo: DemoData | undefined;
try {
  demo = await createDemoData(server);
  const all = listPages(demo);
  const pages = names.length === 0 ? all : all.filter(({ name }) => names.includes(name));
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const [size, width] of Object.entries(widths)) {
      for (const user of new Set(pages.map((page) => page.user))) {
        const window = await browser.open(server, user, { colorScheme, width, height: 860 });
        for (const { name, path, shows, prepare } of pages.filter((page) => page.user === user)) {
          await window.goto(`/app/${path}`);
          await window.getByText(shows).filter({ visible: true }).first().waitFor();
          await prepare?.(window);
          // Plots are drawn after they were loaded.
          await window.waitForTimeout(500);
          const file = join(folder, `${name}-${colorScheme}-${size}.png`);
          await window.screenshot({ path: file, fullPage: size === 'narrow' });
          console.log(file);
        }
        await window.context().close();
      }
    }
  }
} finally {
  // It would run on for hours.
  await demo?.running.cancel();
  await demo?.running.wait();
  await server.dispose();
  await browser.close();
}
