import { toPlainLine } from './plain-text.ts';

/** More lines would be higher than a browser can make an element. The oldest are dropped. */
const maxLines = 500_000;
/** Wrapped lines have several rows, and all of them are in memory. */
const maxCharacters = 20_000_000;
/** Lines are dropped in blocks, because that copies all others. */
const droppedBlock = 50_000;
const droppedCharacters = maxCharacters / 10;
/** The page shows so much of a line. */
const maxLineLength = 50_000;
const lineFeed = 0x0a;

/** The lines of a part of a log, from the byte `start` on. The part begins and grows at the borders of lines. */
export interface LogBuffer {
  lines: readonly string[];
  start: number;
  end: number;
  /** The number of the first line; undefined if the part does not begin at the start of the log. */
  firstNumber: number | undefined;
  /** Whether the lines before the first one can be added. */
  canPrepend: boolean;
  /** Number of lines that were added before the original first one, minus those that were dropped. */
  origin: number;
  append(bytes: Uint8Array): void;
  /** Adds the bytes that end at `start`. */
  prepend(bytes: Uint8Array): void;
}

/** A part that does not begin at 0 begins after the first line feed, because its first line is cut. */
export function createLogBuffer(from: number): LogBuffer {
  const decoder = new TextDecoder();
  let lines: string[] = [];
  /** The last line, as received, if it has no end yet. */
  let openLine = '';
  let isInCutLine = from > 0;
  let characters = 0;

  const buffer: LogBuffer = {
    get lines() {
      return lines;
    },
    start: from,
    end: from,
    firstNumber: from === 0 ? 1 : undefined,
    canPrepend: true,
    origin: 0,

    append(bytes) {
      buffer.end += bytes.length;
      let rest = bytes;
      if (isInCutLine) {
        const cut = rest.indexOf(lineFeed) + 1;
        buffer.start += cut === 0 ? rest.length : cut;
        if (cut === 0) return;
        rest = rest.subarray(cut);
        isInCutLine = false;
      }
      const texts = (openLine + decoder.decode(rest, { stream: true })).split('\n');
      if (openLine !== '') characters -= lines.pop()?.length ?? 0;
      openLine = limitOpenLine(texts.pop() ?? '');
      for (const text of texts) push(text);
      if (openLine !== '') push(openLine);
      dropOldest();
    },

    prepend(bytes) {
      const isStart = buffer.start === bytes.length;
      const cut = isStart ? 0 : bytes.indexOf(lineFeed) + 1;
      const texts = new TextDecoder().decode(bytes.subarray(cut)).split('\n');
      // The text ends with the line feed before the present first line.
      if (texts.at(-1) === '') texts.pop();
      const added = texts.map(toShownLine);
      characters += countCharacters(added);
      lines = added.concat(lines);
      buffer.origin += texts.length;
      buffer.start -= bytes.length - cut;
      if (isStart) buffer.firstNumber = 1;
    },
  };

  function push(text: string) {
    const line = toShownLine(text);
    characters += line.length;
    lines.push(line);
  }
  function dropOldest() {
    const surplus = Math.max(surplusLines(), surplusByCharacters());
    if (surplus === 0) return;
    characters -= countCharacters(lines.slice(0, surplus));
    lines = lines.slice(surplus);
    buffer.canPrepend = false;
    buffer.origin -= surplus;
    if (buffer.firstNumber !== undefined) buffer.firstNumber += surplus;
  }
  function surplusLines(): number {
    const surplus = lines.length - maxLines;
    return surplus < droppedBlock ? 0 : surplus;
  }
  function surplusByCharacters(): number {
    if (characters < maxCharacters + droppedCharacters) return 0;
    let rest = characters;
    let count = 0;
    for (; rest > maxCharacters; count++) rest -= lines[count]?.length ?? rest;
    return count;
  }
  return buffer;
}

const countCharacters = (lines: readonly string[]) => lines.reduce((sum, { length }) => sum + length, 0);

function toShownLine(raw: string): string {
  const line = toPlainLine(raw);
  return line.length <= maxLineLength ? line : `${line.slice(0, maxLineLength)}… (cut: download the log for all of it)`;
}

/** A program may overwrite one line for hours, or write without any line feed. */
function limitOpenLine(raw: string): string {
  if (raw.length <= 2 * maxLineLength) return raw;
  return raw.slice(raw.lastIndexOf('\r', raw.length - 2) + 1).slice(0, 2 * maxLineLength);
}
