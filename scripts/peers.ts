// The real servers that some tests need. Missing ones are installed if possible, once, before any test runs.
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

interface Peer {
  name: string;
  programs: string[];
  packages: string[];
  /** Every test that imports this module, directly or not, needs the server. */
  module?: string;
  /** Further tests that need it, by path. */
  tests?: RegExp;
}

const peers: Peer[] = [
  {
    name: 'Slurm',
    programs: ['munged', 'slurmctld', 'slurmd', 'sbatch', 'setpriv'],
    packages: ['slurm-wlm', 'munge', 'util-linux'],
    module: 'test/support/slurm-cluster.ts',
    tests: /^test\/bench\//,
  },
  {
    name: "Slurm's accounting",
    programs: ['slurmdbd', 'mariadbd', 'mariadb-install-db'],
    packages: ['slurmdbd', 'mariadb-server'],
    tests: /^test\/(engines\/slurm\/slurm-accounting|cli\/doctor-slurm|docs\/slurm)/,
  },
  {
    name: 'slurmrestd',
    programs: ['slurmrestd'],
    packages: ['slurmrestd', 'slurm-wlm-jwt-plugin'],
    tests: /^test\/bench\//,
  },
  {
    name: 'OpenSSH',
    programs: ['sshd', 'ssh', 'ssh-keygen'],
    packages: ['openssh-server', 'openssh-client'],
    module: 'test/support/sshd.ts',
  },
  {
    name: 'PostgreSQL',
    programs: ['initdb', 'postgres', 'setpriv', 'openssl'],
    packages: ['postgresql', 'util-linux', 'openssl'],
    module: 'test/support/postgres.ts',
    tests: /^test\/bench\//,
  },
  {
    name: 'OpenSSL',
    programs: ['openssl'],
    packages: ['openssl'],
    module: 'test/support/certificates.ts',
  },
];

const foldersNow = () => [
  ...`${process.env.PATH ?? ''}:/usr/sbin:/usr/bin:/sbin:/bin`.split(':'),
  // Debian keeps the programs of a server outside the path.
  ...globSync('/usr/lib/postgresql/*/bin'),
];
const isThere = (program: string) => foldersNow().some((folder) => existsSync(join(folder, program)));
const isMissing = ({ programs }: Peer) => !programs.every(isThere);

/** A test file and everything under test/ that it imports, directly or not. */
export function importsOf(file: string, found: Set<string> = new Set()): Set<string> {
  if (found.has(file)) return found;
  found.add(file);
  for (const [, path = ''] of readFileSync(file, 'utf8').matchAll(/ from '(\.[^']+\.ts)'/g)) {
    const imported = join(dirname(file), path);
    if (imported.startsWith('test/')) importsOf(imported, found);
  }
  return found;
}

const needs = ({ module, tests }: Peer, file: string) =>
  tests?.test(file) || (module !== undefined && importsOf(file).has(module));

export function needsPeer(file: string): boolean {
  return peers.some((peer) => needs(peer, file));
}

/** The test files that can run here. With CI=true all must be able to; otherwise the missing servers are reported. */
export function runnable(files: readonly string[]): string[] {
  const needed = peers.filter((peer) => files.some((file) => needs(peer, file)));
  const missing = installMissing(needed);
  const left = files.filter((file) => !missing.some((peer) => needs(peer, file)));
  for (const peer of missing) reportNotRun(peer, files.filter((file) => needs(peer, file)).length);
  return left;
}

/** Whether a server is available for test files that run without it too. */
export function canRun(name: string, files: number): boolean {
  const missing = installMissing(peers.filter((peer) => peer.name === name));
  for (const peer of missing) reportNotRun(peer, files);
  return missing.length === 0;
}

/** Whether a server is installed, or could be installed now. */
export function isHere(name: string): boolean {
  return installMissing(peers.filter((peer) => peer.name === name)).length === 0;
}

/** Installs the missing servers. Returns those that are still missing. */
function installMissing(needed: Peer[]): Peer[] {
  const missing = needed.filter(isMissing);
  if (missing.length > 0) install(missing.flatMap(({ packages }) => packages));
  return missing.filter((peer) => isMissing(peer));
}

function reportNotRun({ name, packages }: Peer, files: number): void {
  const advice = `${name} is not installed (apt-get install ${packages.join(' ')})`;
  if (process.env.CI === 'true') throw new Error(`${advice}, and on CI its tests must run`);
  console.error(`NOT RUN: ${files} test files, because ${advice}.`);
}

function install(packages: string[]): void {
  if (process.getuid?.() !== 0 || !isThere('apt-get')) return;
  console.error(`Installing ${packages.join(', ')} (once)…`);
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  try {
    execFileSync('apt-get', ['update', '-qq'], { env, stdio: ['ignore', 2, 2], timeout: 300_000 });
    execFileSync('apt-get', ['install', '-y', '-qq', ...packages], {
      env,
      stdio: ['ignore', 'ignore', 2],
      timeout: 600_000,
    });
  } catch (error) {
    console.error(`That failed: ${(error as Error).message}`);
  }
}
