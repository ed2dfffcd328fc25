/** Checks the first line of a script, which must name its interpreter. Returns null if it is valid. */
export function firstLineError(script: string, firstLine: string): string | null {
  if (!firstLine.startsWith('#!')) {
    return `${script} does not name its interpreter: add a first line such as #!/bin/bash`;
  }
  if (firstLine.endsWith('\r')) {
    return `${script} has Windows line endings: convert it to Unix line endings (dos2unix ${script})`;
  }
  return /^#!\s*$/.test(firstLine) ? `${script} names no interpreter after #!: write, for example, #!/bin/bash` : null;
}

/** Only shells give 126 and 127 a fixed meaning. */
export function describeShellExitCode(code: number): string {
  if (code === 127) return 'command not found (exit code 127): stderr says which';
  if (code === 126) return 'command not executable (exit code 126): stderr says which';
  return `exit code ${code}`;
}
