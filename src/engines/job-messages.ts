/** Messages for scripts that cannot be run. */
export const scriptErrors = {
  absolute: (script: string) => `${script} is an absolute path: give the path of the script inside the zip`,
  outside: (script: string) => `${script} is outside the job's folder: use a script that is in the zip`,
  absent: (script: string) => `${script} is not in the zip: add it at that path, or correct the command`,
} as const;

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
