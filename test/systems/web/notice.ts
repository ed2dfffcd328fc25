import type { Page } from 'playwright-core';

/**
 * Waits for a notice, which the page shows for some seconds only. To be called before the action that causes it: the page
 * itself then looks for it in every frame.
 */
export async function waitForNotice(page: Page, text: string): Promise<void> {
  await page.waitForFunction((notice) => document.body.textContent?.includes(notice), text);
}
