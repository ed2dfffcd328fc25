// The real servers that some tests need. They are installed where that is possible, and once, before any test runs.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
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
    tests: /^test\/(slurm\/|engines\/slurm-(?!parsers))/,
  },
  {
    name: 'OpenSSH',
    programs: ['sshd', 'ssh', 'ssh-keygen'],
    packages: ['openssh-server', 'openssh-client'],
    tests: /^test\/(shell\/ssh-|files\/remote-|lifecycle\/ssh-)/,
  },
];

const folders = `${process.env.PATH ?? ''}:/usr/sbin:/usr/bin:/sbin:/bin`.split(':');
const isThere = (program: string) => folders.some((folder) => existsSync(join(folder, program)));
const isMissing = ({ programs }: Peer) => !programs.every(isThere);

/** Of these test files, the ones that can run here. On CI all must; elsewhere it is said aloud which do not. */
export function runnable(files: readonly string[]): string[] {
  const needed = peers.filter(({ tests }) => files.some((file) => tests.test(file)));
  const missing = needed.filter(isMissing);
  if (missing.length > 0) install(missing.flatMap(({ packages }) => packages));
  const absent = missing.filter(isMissing);
  const left = files.filter((file) => !absent.some(({ tests }) => tests.test(file)));
  for (const { name, packages } of absent) {
    const advice = `${name} is not installed (apt-get install ${packages.join(' ')})`;
    if (process.env.CI === 'true') throw new Error(`${advice}, and on CI its tests must run`);
    console.error(`NOT RUN: ${files.length - left.length} test files, because ${advice}.`);
  }
  return left;
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
