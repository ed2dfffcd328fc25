import { hash } from 'node:crypto';
import type { FastifyReply } from 'fastify';

/** Text that is safe in HTML. Only `html` makes it. */
export interface Html {
  readonly markup: string;
}

type Value = string | number | Html | readonly Html[];

/** Builds HTML. Values are escaped, unless they are HTML themselves. */
export function html(parts: TemplateStringsArray, ...values: readonly Value[]): Html {
  return { markup: parts.map((part, index) => part + toMarkup(values[index] ?? '')).join('') };
}

function toMarkup(value: Value): string {
  if (typeof value === 'string' || typeof value === 'number') return escapeHtml(String(value));
  return 'markup' in value ? value.markup : value.map(({ markup }) => markup).join('');
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const escapeHtml = (text: string) => text.replace(/[&<>"']/g, (character) => entities[character] ?? '');

const style = `
:root { color-scheme: light dark; --line: #8885; --accent: #0b5cad; --accent-text: #fff }
@media (prefers-color-scheme: dark) { :root { --accent: #7db8f5; --accent-text: #06233f } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 34rem; margin: 12vh auto 2rem; padding: 0 1.25rem }
header { font-weight: 600; opacity: .7 }
h1 { font-size: 1.5rem; margin: .25rem 0 1rem }
a { color: var(--accent) }
code { font-family: ui-monospace, monospace; overflow-wrap: anywhere }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; padding: 1rem 0; margin: 1rem 0; border: solid var(--line); border-width: 1px 0 }
dt { opacity: .7 }
dd { margin: 0; overflow-wrap: anywhere }
form { margin: 1.25rem 0 }
label { display: block; margin-bottom: .25rem }
input { font: inherit; padding: .5rem .75rem; width: 12rem; max-width: 100%; border: 1px solid var(--line); border-radius: 6px; text-transform: uppercase; letter-spacing: .1em }
button, .button { font: inherit; display: inline-block; padding: .5rem 1.25rem; margin: 0 .5rem .5rem 0; border: 1px solid var(--accent); border-radius: 6px; background: var(--accent); color: var(--accent-text); text-decoration: none; cursor: pointer }
pre { overflow-x: auto }
table { border-collapse: collapse }
th, td { text-align: left; padding: .3rem 1rem .3rem 0; border-bottom: 1px solid var(--line) }
tr:target { background: var(--line) }
.secondary { background: none; color: inherit; border-color: var(--line) }
`;
const styleSource = `'sha256-${hash('sha256', style, 'base64')}'`;

export interface Page {
  title: string;
  body: Html;
  /** Other origins to which a form of the page may lead, by a redirect. */
  formTargets?: readonly string[];
}

/** Sends a page without scripts, which no other page can frame and no cache keeps. */
export function sendPage(reply: FastifyReply, status: number, { title, body, formTargets = [] }: Page): FastifyReply {
  const page = html`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="UTF-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Bursar</title>
<style>${{ markup: style }}</style>
</head>
<body>
<header>Bursar</header>
<main>
<h1>${title}</h1>
${body}
</main>
</body>
</html>
`;
  const formAction = ["'self'", ...formTargets].join(' ');
  const policy = `default-src 'none'; style-src ${styleSource}; form-action ${formAction}; frame-ancestors 'none'; base-uri 'none'`;
  return (
    reply
      .code(status)
      .type('text/html; charset=utf-8')
      .header('content-security-policy', policy)
      // Not `no-referrer`: with it, browsers send `Origin: null` with the forms of the page.
      .header('referrer-policy', 'strict-origin')
      .header('cache-control', 'no-store')
      .send(page.markup)
  );
}
