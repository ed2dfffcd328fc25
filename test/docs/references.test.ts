import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { eventKinds } from '../../src/domain/event.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Paths of source files in code spans, such as `src/main.ts`. Pages may omit `src/`. */
const sourcePath = /`([\w./-]+\.(?:ts|mjs|cjs))`/g;
/** Targets of links to files of the repository, without their anchors. */
const linkTarget = /\]\((?!https?:)([^)#]+)/g;

function find(pattern: RegExp, text: string): string[] {
  return [...text.matchAll(pattern)].map(([, match = '']) => match);
}

describe('pages of the documentation', () => {
  const pages = globSync(['*.md', 'docs/*.md'], { cwd: root });
  const read = (page: string) => readFileSync(join(root, page), 'utf8');

  for (const page of pages) {
    test(`${page} names existing source files, and links to existing files`, () => {
      const text = read(page);
      const missingSources = find(sourcePath, text).filter(
        (path) => !existsSync(join(root, path)) && !existsSync(join(root, 'src', path)),
      );
      const missingTargets = find(linkTarget, text).filter((target) => !existsSync(join(root, dirname(page), target)));
      assert.deepEqual({ missingSources, missingTargets }, { missingSources: [], missingTargets: [] });
    });
  }

  test('docs/architecture.md names source files and links to other pages', () => {
    const text = read('docs/architecture.md');
    assert.ok(find(sourcePath, text).length > 20);
    assert.ok(find(linkTarget, text).length > 5);
  });

  test('docs/architecture.md lists the imports that .dependency-cruiser.cjs allows', () => {
    const rules: { comment?: string }[] = createRequire(import.meta.url)(
      join(root, '.dependency-cruiser.cjs'),
    ).forbidden;
    const allowed = rules.flatMap(({ comment = '' }) => {
      const [, folder, names] = /^src\/(\w+) may import only: (.*)$/.exec(comment) ?? [];
      return folder === undefined ? [] : [[folder, names?.split(', ').filter((name) => name !== folder)] as const];
    });
    const [, table = ''] =
      /\| folder \| may import \|\n\|---\|---\|\n([\s\S]*?)\n\n/.exec(read('docs/architecture.md')) ?? [];
    const listed = table.split('\n').flatMap((row) => {
      const [, folders = '', imports = ''] = row.split('|');
      return find(/`(\w+)`/g, folders).map((folder) => [folder, find(/`(\w+)`/g, imports)] as const);
    });
    const unrestricted = ['cli', 'composition'];
    const documented = new Map(listed.filter(([folder]) => !unrestricted.includes(folder)));
    assert.deepEqual(documented, new Map(allowed));
  });

  test('docs/dependencies.md lists exactly the packages of package.json and of web/package.json', () => {
    const packages = ['package.json', 'web/package.json'].flatMap((file) => {
      const { dependencies, devDependencies, optionalDependencies } = JSON.parse(read(file));
      return Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies });
    });
    const expected = new Set(packages.map((name) => name.replace(/^@types\/.*/, '@types/*')));
    const rows = find(/^\| (`.*?`) \|/gm, read('docs/dependencies.md'));
    const listed = rows.flatMap((names) => find(/`([^`]+)`/g, names));
    assert.deepEqual(listed.toSorted(), [...expected].toSorted());
  });

  test('docs/events.md lists exactly the existing event types', () => {
    assert.deepEqual(find(/^\| `(\w+\.\w+)` \|/gm, read('docs/events.md')), Object.keys(eventKinds));
  });

  test('docs/glossary.md has at most 25 terms', () => {
    const terms = find(/^\| \*\*(.+?)\*\*/gm, read('docs/glossary.md'));
    assert.ok(terms.length > 0 && terms.length <= 25, `${terms.length} terms`);
  });
});
