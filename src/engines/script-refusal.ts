/** Why a script cannot be run, and what to do about it: the same words for every engine. */
export const scriptRefusal = {
  absolute: (script: string) => `${script} is not a path inside the zip: name the script relative to its top`,
  outside: (script: string) => `${script} leaves the job's folder: name a script that is in the zip`,
  absent: (script: string) => `${script} is not in the zip: add it at that path, or correct the command`,
} as const;

/** What is wrong with the first line of a script, which has to say what runs it; null when nothing is. */
export function firstLineRefusal(script: string, firstLine: string): string | null {
  if (!firstLine.startsWith('#!')) {
    return `${script} does not say what runs it: make its first line an interpreter, such as #!/bin/bash`;
  }
  if (firstLine.endsWith('\r')) {
    return `${script} has the line ends of Windows: save it with Unix line ends (dos2unix ${script})`;
  }
  return /^#!\s*$/.test(firstLine) ? `${script} names no interpreter after #!` : null;
}
