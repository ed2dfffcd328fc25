// The external software that some tests need. Missing software is installed if possible, once, before any test runs.
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

interface ExternalSoftware {
  name: string;
  programs: string[];
  /** Patterns of files, for libraries that have no program. */
  files?: string[];
  packages: string[];
  /** Every test that imports this module, directly or not, needs the software. */
  testModule?: string;
  /** Further tests that need the software. */
  testPaths?: RegExp;
}

const externalSoftware: ExternalSoftware[] = [
  {
    name: 'Slurm',
    programs: ['munged', 'slurmctld', 'slurmd', 'sbatch', 'setpriv'],
    packages: ['slurm-wlm', 'munge', 'util-linux'],
    testModule: 'test/support/slurm-cluster.ts',
    testPaths: /^test\/(systems|long)\/bench\//,
  },
  {
    name: "Slurm's accounting",
    programs: ['slurmdbd', 'mariadbd', 'mariadb-install-db'],
    packages: ['slurmdbd', 'mariadb-server'],
    testPaths: /^test\/systems\/(engines\/slurm\/slurm-accounting|cli\/doctor-slurm|docs\/slurm)/,
  },
  {
    name: 'slurmrestd',
    programs: ['slurmrestd'],
    packages: ['slurmrestd', 'slurm-wlm-jwt-plugin'],
    testPaths: /^test\/(systems|long)\/bench\//,
  },
  {
    name: 'OpenSSH',
    programs: ['sshd', 'ssh', 'ssh-keygen'],
    packages: ['openssh-server', 'openssh-client'],
    testModule: 'test/support/sshd.ts',
  },
  {
    name: 'PostgreSQL',
    programs: ['initdb', 'postgres', 'setpriv', 'openssl'],
    packages: ['postgresql', 'util-linux', 'openssl'],
    testModule: 'test/support/postgres.ts',
    testPaths: /^test\/(systems|long)\/bench\//,
  },
  {
    name: 'bubblewrap',
    programs: ['bwrap', 'setpriv', 'perl'],
    packages: ['bubblewrap', 'util-linux', 'perl'],
    testModule: 'test/support/bubblewrap.ts',
    // As root, a server process with a configuration of its own does not start without.
    testPaths: /^test\/(systems|long)\//,
  },
  {
    name: 'programs of a Debian system',
    programs: ['ps', 'curl', 'mount', 'ipcmk'],
    packages: ['procps', 'curl', 'mount', 'util-linux'],
    testPaths: /^test\/(systems|long)\//,
  },
  {
    name: 'Python',
    programs: ['python3', 'mypy'],
    files: ['/usr/lib/python3/dist-packages/requests/__init__.py', '/usr/lib/python3.*/ensurepip/__init__.py'],
    packages: ['python3', 'python3-requests', 'python3-venv', 'mypy'],
    testPaths: /^test\/systems\/(python|docs\/(events|readme))/,
  },
  {
    name: 'ShellCheck',
    programs: ['shellcheck'],
    packages: ['shellcheck'],
    testPaths: /^test\/systems\/engines\/shell-programs/,
  },
  {
    name: 'strace',
    programs: ['strace'],
    packages: ['strace'],
    testPaths: /^test\/systems\/crash\/failed-fsync/,
  },
  {
    name: 'Chromium',
    // Without the parts of a desktop browser: its pages take less than two thirds of the CPU time.
    programs: ['chromium-headless-shell'],
    packages: ['chromium-headless-shell'],
    testModule: 'test/support/web-page.ts',
  },
  {
    name: 'tmux',
    programs: ['tmux'],
    packages: ['tmux'],
    testModule: 'test/support/terminal.ts',
  },
  {
    name: 'zsh and fish',
    programs: ['zsh', 'fish'],
    packages: ['zsh', 'fish'],
    testPaths: /^test\/systems\/cli\/user\/completion/,
  },
  {
    name: 'systemd',
    programs: ['systemd-notify', 'systemd-analyze', 'python3'],
    packages: ['systemd', 'python3'],
    testPaths: /^test\/systems\/deploy\/systemd/,
  },
  {
    name: 'Prometheus',
    programs: ['promtool'],
    packages: ['prometheus'],
    testPaths: /^test\/systems\/(metrics\/|deploy\/monitoring)/,
  },
  {
    name: 'logrotate',
    programs: ['logrotate'],
    packages: ['logrotate'],
    testPaths: /^test\/systems\/deploy\/logrotate/,
  },
  {
    name: 'nginx and Caddy',
    programs: ['nginx', 'caddy', 'setpriv'],
    packages: ['nginx-light', 'caddy', 'util-linux'],
    testModule: 'test/support/reverse-proxy.ts',
  },
  {
    name: 'OpenSSL',
    programs: ['openssl'],
    packages: ['openssl'],
    testModule: 'test/support/certificates.ts',
  },
];

const searchFolders = () => [
  ...`${process.env.PATH ?? ''}:/usr/sbin:/usr/bin:/sbin:/bin`.split(':'),
  // Debian installs the server programs of PostgreSQL outside PATH.
  ...globSync('/usr/lib/postgresql/*/bin'),
];
const isInstalled = (program: string) => searchFolders().some((folder) => existsSync(join(folder, program)));
const isMissing = ({ programs, files = [] }: ExternalSoftware) =>
  !programs.every(isInstalled) || !files.every((pattern) => globSync(pattern).length > 0);

/** A test file and everything that it imports, directly or through modules under test/. */
export function findImports(file: string, found: Set<string> = new Set()): Set<string> {
  if (found.has(file)) return found;
  found.add(file);
  for (const [, path = ''] of readFileSync(file, 'utf8').matchAll(/ from '(\.[^']+\.ts)'/g)) {
    const imported = join(dirname(file), path);
    if (imported.startsWith('test/')) findImports(imported, found);
    else found.add(imported);
  }
  return found;
}

const needs = ({ testModule, testPaths }: ExternalSoftware, file: string) =>
  testPaths?.test(file) || (testModule !== undefined && findImports(file).has(testModule));

/** Returns the test files whose software is installed. Reports the others; with CI=true they are an error. */
export function filterRunnable(files: readonly string[]): string[] {
  const needed = externalSoftware.filter((software) => files.some((file) => needs(software, file)));
  const missing = installMissing(needed);
  for (const software of missing) reportNotRun(software, files.filter((file) => needs(software, file)).length);
  return files.filter((file) => !missing.some((software) => needs(software, file)));
}

/** Like `isAvailable`. If the software is missing, reports that this number of test files does not run. */
export function isAvailableOrReport(name: string, files: number): boolean {
  const missing = installMissing(externalSoftware.filter((software) => software.name === name));
  for (const software of missing) reportNotRun(software, files);
  return missing.length === 0;
}

/** Whether the software is installed, or could be installed now. */
export function isAvailable(name: string): boolean {
  return installMissing(externalSoftware.filter((software) => software.name === name)).length === 0;
}

/** Installs missing software. Returns the software that is still missing. */
function installMissing(needed: ExternalSoftware[]): ExternalSoftware[] {
  const missing = needed.filter(isMissing);
  if (missing.length > 0) install(missing.flatMap(({ packages }) => packages));
  return missing.filter(isMissing);
}

function reportNotRun({ name, packages }: ExternalSoftware, files: number): void {
  const advice = `${name} is not installed (apt-get install ${packages.join(' ')})`;
  if (process.env.CI === 'true') throw new Error(`${advice}, and on CI its tests must run`);
  console.error(`NOT RUN: ${files} test files, because ${advice}.`);
}

function install(packages: string[]): void {
  if (process.getuid?.() !== 0 || !isInstalled('apt-get')) return;
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
    console.error(`The installation failed: ${(error as Error).message}`);
  }
}
