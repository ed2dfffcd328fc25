import type { Page } from 'playwright-core';

/**
 * Waits for a notice, which the page shows for some seconds only. To be called before the action that causes it: the page
 * itself then looks for it in every frame.
 */
export async function waitForNotice(page: Page, text: string | RegExp): Promise<void> {
  await page.waitForFunction((notice) => {
    const shown = document.body.textContent ?? '';
    return typeof notice === 'string' ? shown.includes(notice) : notice.test(shown);
  }, text);
}
