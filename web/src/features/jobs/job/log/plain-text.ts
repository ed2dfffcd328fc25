/** Escape sequences of terminals: colours and movements (CSI), titles and links (OSC), and shorter ones. */
const escapeSequences =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin with one
  /\u001b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]*[0-~])/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they have no form on a page
const controlCharacters = /[\u0000-\u0008\u000b-\u001f\u007f]/g;
const tabWidth = 8;

/** A line as a terminal leaves it: without escape sequences, and with the last of the texts that overwrote each other. */
export function toPlainLine(raw: string): string {
  let line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
  if (line.includes('\u001b')) line = line.replace(escapeSequences, '');
  const overwritten = line.lastIndexOf('\r');
  if (overwritten >= 0) line = line.slice(overwritten + 1);
  return expandTabs(line.replace(controlCharacters, ''));
}

/** Every character has the same width then, so that the length of a line tells its rows. */
function expandTabs(line: string): string {
  if (!line.includes('\t')) return line;
  const [first = '', ...rest] = line.split('\t');
  let text = first;
  for (const part of rest) text += ' '.repeat(tabWidth - (text.length % tabWidth)) + part;
  return text;
}
