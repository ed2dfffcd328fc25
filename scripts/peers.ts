// The real servers that some tests need. They are installed where that is possible, and once, before any test runs.
import { execFileSync } from 'node:child_process';
import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';

interface Peer {
  name: string;
  programs: string[];
  packages: string[];
  /** The tests that cannot run without it. */
  tests: RegExp;
}

const peers: Peer[] = [
  {
    name: 'Slurm',
    programs: ['munged', 'slurmctld', 'slurmd', 'sbatch', 'setpriv'],
    packages: ['slurm-wlm', 'munge', 'util-linux'],
    tests: /^test\/(bench\/|slurm\/|engines\/slurm\/slurm-|crash\/(slurm|several)-|cli\/doctor-slurm|docs\/slurm)/,
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
    tests:
      /^test\/(shell\/ssh-|files\/workspaces\/remote-|workers\/ssh-|engines\/slurm\/slurm-engine|slurm\/ssh|cli\/doctor-slurm|docs\/slurm)/,
  },
  {
    name: 'PostgreSQL',
    programs: ['initdb', 'postgres', 'setpriv', 'openssl'],
    packages: ['postgresql', 'util-linux', 'openssl'],
    tests: /^test\/(bench\/|postgres\/|crash\/several-)/,
  },
  {
    name: 'OpenSSL',
    programs: ['openssl'],
    packages: ['openssl'],
    tests: /^test\/webhooks\/https/,
  },
];

const foldersNow = () => [
  ...`${process.env.PATH ?? ''}:/usr/sbin:/usr/bin:/sbin:/bin`.split(':'),
  // Debian keeps the programs of a server outside the path.
  ...globSync('/usr/lib/postgresql/*/bin'),
];
const isThere = (program: string) => foldersNow().some((folder) => existsSync(join(folder, program)));
const isMissing = ({ programs }: Peer) => !programs.every(isThere);

/** Whether a test file needs one of these servers. */
export function needsPeer(file: string): boolean {
  return peers.some(({ tests }) => tests.test(file));
}

/** Of these test files, the ones that can run here. On CI all must; elsewhere it is said aloud which do not. */
export function runnable(files: readonly string[]): string[] {
  const needed = peers.filter(({ tests }) => files.some((file) => tests.test(file)));
  const absent = installed(needed);
  const left = files.filter((file) => !absent.some(({ tests }) => tests.test(file)));
  for (const peer of absent) sayNotRun(peer, files.length - left.length);
  return left;
}

/** Whether a peer is there for so many test files that can run without it, but should run on it too. */
export function canRun(name: string, files: number): boolean {
  const absent = installed(peers.filter((peer) => peer.name === name));
  for (const peer of absent) sayNotRun(peer, files);
  return absent.length === 0;
}

/** Whether a peer is there, or could be installed. */
export function isHere(name: string): boolean {
  return installed(peers.filter((peer) => peer.name === name)).length === 0;
}

/** Installs what is missing of these; answers what is missing still. */
function installed(needed: Peer[]): Peer[] {
  const missing = needed.filter(isMissing);
  if (missing.length > 0) install(missing.flatMap(({ packages }) => packages));
  return missing.filter((peer) => isMissing(peer));
}

function sayNotRun({ name, packages }: Peer, files: number): void {
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
