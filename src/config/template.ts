/** A reference to a value outside of the configuration. Its argument may have references too. */
export interface Reference {
  kind: 'file' | 'env';
  argument: Template;
  /** As it is written in the configuration. */
  text: string;
}

/** A text of the configuration: literal text and references, in order. */
export type Template = readonly (string | Reference)[];

export class TemplateError extends Error {}

/** `$${` is a literal `${`. Variables of a shell, such as `${HOME}` and `${name:-x}`, are no references. */
const token = /\$\$\{|\$\{([a-z]+):(?![-=+?])|\}/g;

/** Throws a TemplateError that shows the text up to the mistake only, which contains no value. */
export function parseTemplate(text: string): Template {
  return parseParts(text, 0, false).parts;
}

function parseParts(text: string, start: number, isInside: boolean): { parts: Template; end: number } {
  const parts: (string | Reference)[] = [];
  let at = start;
  for (;;) {
    const pattern = new RegExp(token);
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match === null) {
      if (isInside) throw new TemplateError('a reference has no closing "}": write ${file:/path} or ${env:NAME}');
      return { parts: joinTexts([...parts, text.slice(at)]), end: text.length };
    }
    const [matched, kind] = match;
    const after = match.index + matched.length;
    parts.push(text.slice(at, match.index));
    at = after;
    if (kind !== undefined) {
      const { parts: argument, end } = parseParts(text, after, true);
      parts.push({ kind: requireKind(kind), argument, text: text.slice(match.index, end) });
      at = end;
    } else if (matched === '}' && isInside) {
      if (parts.join('') === '') throw new TemplateError('a reference is empty: write ${file:/path} or ${env:NAME}');
      return { parts: joinTexts(parts), end: after };
    } else {
      parts.push(matched === '}' ? '}' : '${');
    }
  }
}

function requireKind(kind: string): Reference['kind'] {
  if (kind === 'file' || kind === 'env') return kind;
  throw new TemplateError(
    `"\${${kind}:" is not a reference: write \${file:/path} or \${env:NAME}, or $\${ for the two characters themselves`,
  );
}

function joinTexts(parts: Template): Template {
  const joined: (string | Reference)[] = [];
  for (const part of parts) {
    const last = joined.at(-1);
    if (typeof part === 'string' && typeof last === 'string') joined[joined.length - 1] = last + part;
    else if (part !== '') joined.push(part);
  }
  return joined;
}

/** Writes a text so that `parseTemplate` returns it as it is. */
export const escapeTemplate = (text: string): string => text.replaceAll('${', '$$${');

/** One character of Unicode's private use area stands for a reference, while a URL is searched. */
const placeholder = '\uE000';

/**
 * The references in the user name and the password of a URL. Their values are percent-encoded, because a password may have
 * characters that end it in a URL. A reference that is the whole URL, or a host, stays as it is.
 */
export function userInfoReferences(template: Template): ReadonlySet<Reference> {
  const [, scheme = '', userInfo = ''] = /^([a-z][a-z0-9+.-]*:\/\/)([^/?#@]*)@/i.exec(toSkeleton(template)) ?? [];
  const references = template.filter((part) => typeof part !== 'string');
  return new Set(references.slice(0, scheme === '' ? 0 : countPlaceholders(userInfo)));
}

/** Whether the text of a secret may be shown: no part of the secret is in the text. */
export function isOnlyReferences(template: Template): boolean {
  return template.length > 0 && template.every((part) => typeof part !== 'string');
}

/** The text of a URL without its password, unless the password consists of references only. */
export function hidePasswordInTemplate(template: Template, hidden: string): string {
  const text = toSkeleton(template, escapeTemplate);
  const [, start, password, end] = /^([^/]*:\/\/[^:@/]*:)([^/]*)(@.*)$/s.exec(text) ?? [];
  const texts = template.flatMap((part) => (typeof part === 'string' ? [] : [part.text]));
  const withTexts = (skeleton: string) => skeleton.replaceAll(placeholder, () => texts.shift() ?? hidden);
  // Without a password, or in a form that is not known.
  if (start === undefined || password === undefined)
    return text.includes(':') && text.includes('@') ? hidden : withTexts(text);
  const isShown = password !== '' && password.replaceAll(placeholder, '') === '';
  if (isShown) return withTexts(text);
  const shownStart = withTexts(start);
  texts.splice(0, countPlaceholders(password));
  return `${shownStart}${hidden}${withTexts(end ?? '')}`;
}

const countPlaceholders = (text: string) => text.split(placeholder).length - 1;

function toSkeleton(template: Template, write: (text: string) => string = (text) => text): string {
  return template
    .map((part) => (typeof part === 'string' ? write(part).replaceAll(placeholder, ' ') : placeholder))
    .join('');
}
