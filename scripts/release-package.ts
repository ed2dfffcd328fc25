// The content of the package of a release: the build, the packages that cannot be bundled, and the pages for operators.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { releaseBuild } from '../bin/build-folder.mjs';
import packageJson from '../package.json' with { type: 'json' };
import { installedPackages } from './build.mjs';
import type { Bill } from './release-sbom.ts';

const root = resolve(import.meta.dirname, '..');
const pages = ['README.md', 'LICENSE', 'CHANGELOG.md', 'SECURITY.md', 'config', 'deploy'];

/** Of other packages: types, maps, tests, the C sources of SQLite, and Windows. */
const isLeftOut = (path: string) =>
  /\.(map|[mc]?ts|cpp|hpp|c|h|gyp|md|markdown|ya?ml)$|\/(test|bench|tsconfig)\.js(on)?$|\/(tests?|examples?|benchmarks?|\.\w[^/]*)$|better-sqlite3\/(deps|src)$|\/win32-[^/]*$/.test(
    path,
  ) && !/licen[cs]e/i.test(basename(path));

/** Writes the content into an empty folder. */
export function stagePackage(folder: string, build: string, bill: Bill): void {
  cpSync(build, join(folder, releaseBuild), { recursive: true });
  for (const name of ['bursar', 'bursar.mjs', 'build-folder.mjs', 'load-program.mjs', 'node-version.mjs'])
    cpSync(join(root, 'bin', name), join(folder, 'bin', name));
  for (const name of pages) if (existsSync(join(root, name))) copy(name, folder, () => true);
  // The messages of Bursar refer to them.
  copy('docs', folder, (path) => !path.endsWith('/images'));
  for (const path of findPackages(installedPackages)) copy(path, folder, (file) => !isLeftOut(file));
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(describePackage(), null, 2)}\n`);
  writeFileSync(join(folder, 'THIRD-PARTY-LICENSES.txt'), collectLicenses(bill));
}

/** The packages in it are those that were tested: npm needs the network only for the Node that Bursar brings. */
function describePackage() {
  const { name, version, description, license, type, engines, bin, dependencies, optionalDependencies } = packageJson;
  const installed = Object.entries(dependencies).filter(([dependency]) => installedPackages.includes(dependency));
  return {
    name,
    version,
    description,
    license,
    type,
    engines,
    bin,
    dependencies: Object.fromEntries(installed),
    bundleDependencies: installed.map(([dependency]) => dependency),
    optionalDependencies,
  };
}

/** The folders of these packages and of all that they need, relative to the project. */
function findPackages(names: readonly string[], from = '', found: Set<string> = new Set()): Set<string> {
  for (const name of names) {
    const path = resolvePackage(name, from);
    if (path === undefined || found.has(path)) continue;
    found.add(path);
    const { dependencies = {}, optionalDependencies = {} } = JSON.parse(
      readFileSync(join(root, path, 'package.json'), 'utf8'),
    ) as Record<string, Record<string, string>>;
    findPackages(Object.keys({ ...dependencies, ...optionalDependencies }), path, found);
  }
  return found;
}

/** As Node does: in the package itself, then in the folders above. */
function resolvePackage(name: string, from: string): string | undefined {
  const path = join(from, 'node_modules', name);
  if (existsSync(join(root, path, 'package.json'))) return path;
  return from === '' ? undefined : resolvePackage(name, from.slice(0, Math.max(0, from.lastIndexOf('/node_modules'))));
}

function copy(path: string, folder: string, isWanted: (path: string) => boolean): void {
  const source = join(root, path);
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  // Nested packages are copied for themselves, if they are needed.
  const filter = (file: string) => file === source || (basename(file) !== 'node_modules' && isWanted(file));
  cpSync(source, join(folder, path), { recursive: true, filter });
}

/** The licenses ask for their text beside the code, also where it is bundled. */
function collectLicenses({ components }: Bill): string {
  const texts = components.flatMap(({ name, version }) => {
    const path = join(root, 'node_modules', name);
    // Bursar's own packages are links; a Node for another platform is not installed.
    if (name.startsWith('@bursar/') || !existsSync(path)) return [];
    const files = readdirSync(path).filter((file) => /^(licen[cs]e|notice|copying)/i.test(file));
    return files.map((file) => `${name} ${version}\n\n${readFileSync(join(path, file), 'utf8').trim()}\n`);
  });
  return texts.join(`\n${'-'.repeat(80)}\n\n`);
}
