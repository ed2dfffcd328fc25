/** Patterns of secrets, which no log line of a server may contain, by the name of the secret. */
const secrets: Readonly<Record<string, RegExp>> = {
  'a token or code of Bursar': /bursar_[\w-]{20,}/,
  'a session cookie': /bursar_session=[^"*\s]/,
  'a JSON web token': /eyJ[\w-]{8,}\.eyJ[\w-]{8,}/,
  'an Authorization header': /Bearer [\w.~+/-]{16,}/i,
  'the secret of a webhook': /whsec_[\w+/=]{16,}/,
  'a SHA-256 hash': /\b[0-9a-f]{64}\b/i,
  'a private key': /-----BEGIN [A-Z ]*PRIVATE KEY-----/,
  'a password in a URL': /[a-z]:\/\/[^\s"':@/]*:[^\s"'*@/]+@/i,
};

const anySecret = new RegExp(
  Object.values(secrets)
    .map(({ source }) => `(?:${source})`)
    .join('|'),
  'i',
);

/** Returns the names of the secrets in a text. */
export function findSecrets(text: string): string[] {
  if (!anySecret.test(text)) return [];
  return Object.keys(secrets).filter((name) => secrets[name]?.test(text));
}

const maxReported = 20;
const leaks: string[] = [];

/** Checks the log of a server. A secret in it fails the test process at its end, with the line and the test file. */
export function checkLog(text: string, testFile: string): void {
  if (!anySecret.test(text)) return;
  for (const line of text.split('\n')) {
    const names = findSecrets(line);
    if (names.length > 0) leaks.push(`${testFile}: the log contains ${names.join(' and ')}: ${line.slice(0, 1000)}`);
  }
}

process.on('exit', () => {
  if (leaks.length === 0) return;
  process.exitCode = 1;
  process.stderr.write(`${leaks.slice(0, maxReported).join('\n')}\n${leaks.length} log lines contain secrets\n`);
});

/** The test that called, directly or through a fixture. Several test files may share a process. */
export function findTestFile(): string {
  const { stack = '' } = new Error('for its stack');
  return /test\/[\w/.-]+\.test\.ts/.exec(stack)?.[0] ?? process.argv.slice(1).join(' ');
}
