import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

export const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');

/** Finds the fenced block of a language that contains a text, and inserts the URL of the test server. */
export function findExample(language: string, containing: string, url: string, page = readme): string {
  const blocks = [...page.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))];
  const block = blocks.map(([, text = '']) => text).find((text) => text.includes(containing));
  assert.ok(block, `there is no ${language} block with ${containing}`);
  return block.replaceAll('http://127.0.0.1:8080', url);
}
