/** The lines that contain a text, found in the order of the lines. Lines that were added are searched by the next call. */
export interface LogSearch {
  update(lines: readonly string[], origin: number): readonly number[];
}

/** Upper and lower case are alike. `origin` changes when lines are added before the others, or dropped. */
export function createLogSearch(text: string): LogSearch {
  const pattern = new RegExp(escapePattern(text), 'i');
  let matches: number[] = [];
  let searchedTo = 0;
  let knownOrigin = 0;
  return {
    update(lines, origin) {
      if (origin !== knownOrigin || lines.length < searchedTo) {
        matches = [];
        searchedTo = 0;
        knownOrigin = origin;
      }
      // The last line may have grown since.
      if (matches.at(-1) === searchedTo - 1) matches.pop();
      for (let index = Math.max(0, searchedTo - 1); index < lines.length; index++)
        if (pattern.test(lines[index] ?? '')) matches.push(index);
      searchedTo = lines.length;
      return matches;
    },
  };
}

/** Splits a line at the places where the text is, for marks: every second part is one. */
export function splitAtMatches(line: string, text: string): string[] {
  return text === '' ? [line] : line.split(new RegExp(`(${escapePattern(text)})`, 'i'));
}

const escapePattern = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
