import assert from 'node:assert/strict';
import { commandLineActor } from '../../src/services/identity/actor.ts';
import { createSignInLink } from '../../src/services/identity/sign-in-links.ts';
import { type BrowserClient, createBrowserClient, formFields } from './browser.ts';
import { withDatabase } from './database.ts';
import type { TestServer } from './server.ts';

/** Does what `bursar user sign-in-link` does, for an existing user. Returns the path. */
export function createLink({ data }: TestServer, userId: string): Promise<string> {
  return withDatabase(data, (db) => createSignInLink(db, userId, commandLineActor('test'), Date.now()));
}

/** Opens a sign-in link, and presses its button. */
export async function signIn(server: TestServer, userId: string, browser = createBrowserClient(server.url)) {
  const page = await browser.get(await createLink(server, userId));
  assert.equal(page.status, 200, page.text);
  const response = await browser.submit('/sign-in/', formFields(page.text));
  assert.equal(response.status, 303, response.text);
  return browser;
}

export const sessionOf = ({ cookies }: BrowserClient) => cookies.get('bursar_session')?.value ?? '';
