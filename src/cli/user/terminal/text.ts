/** Control characters, and the characters that change the direction of the text after them. */
const unsafe = /[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]/gu;
/** A colour or another attribute of the text: the only escape sequence of a log that reaches the terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern finds control characters
const attributes = /^\u001b\[[\d;:]*m/;

/** Makes text of the server safe for one cell of a table: nothing in it moves the cursor or runs as an escape sequence. */
export function escapeText(text: string): string {
  return text.replace(unsafe, escapeCharacter);
}

/** Makes a log safe for a terminal. Lines, tabs, carriage returns and colours stay. */
export function escapeLog(text: string): string {
  return text.replace(unsafe, (character, offset: number) => {
    if (character === '\n' || character === '\r' || character === '\t') return character;
    return character === '\u001b' && attributes.test(text.slice(offset, offset + 32))
      ? character
      : escapeCharacter(character);
  });
}

function escapeCharacter(character: string): string {
  if (character === '\n') return '\\n';
  if (character === '\t') return '\\t';
  if (character === '\r') return '\\r';
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

let segmenter: Intl.Segmenter | undefined;
/** Splits a text into the characters that people see. The segmenter takes 25 ms to create, and most texts are ASCII. */
function segments(text: string): Iterable<Intl.SegmentData> {
  segmenter ??= new Intl.Segmenter();
  return segmenter.segment(text);
}

/** Characters that take two columns: East Asian wide and full-width forms, and emoji. */
const wide =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|^\p{Emoji_Presentation}/u;
const zeroWidth = /^[\p{Mn}\p{Me}\p{Cf}]/u;
// biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern finds control characters
const styling = /\u001b\[[\d;]*m/g;
/** Like `styling`, with a group, so that `split` keeps the sequences. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern finds control characters
const stylingParts = /(\u001b\[[\d;]*m)/;
const plain = /^[\u0020-\u007e]*$/;

/** The number of columns that a text takes on a terminal, without its colours. */
export function textWidth(text: string): number {
  const bare = text.replace(styling, '');
  if (plain.test(bare)) return bare.length;
  let width = 0;
  for (const { segment } of segments(bare)) width += segmentWidth(segment);
  return width;
}

function segmentWidth(segment: string): number {
  if (zeroWidth.test(segment)) return 0;
  return wide.test(segment) || segment.includes('\ufe0f') ? 2 : 1;
}

/** Shortens a text to a number of columns. A shortened text ends with "…", and keeps its colours. */
export function shorten(text: string, columns: number): string {
  if (textWidth(text) <= columns) return text;
  if (columns <= 0) return '';
  let result = '';
  let width = 0;
  let isFull = false;
  for (const part of text.split(stylingParts)) {
    if (part.startsWith('\u001b')) result += part;
    else if (!isFull) {
      for (const { segment } of segments(part)) {
        width += segmentWidth(segment);
        isFull = width > columns - 1;
        if (isFull) break;
        result += segment;
      }
      if (isFull) result += '…';
    }
  }
  return result;
}
