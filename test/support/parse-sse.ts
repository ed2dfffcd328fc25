export interface SseEvent {
  id: string;
  event: string;
  data: string;
}

/** Parses server-sent events as a browser does (WHATWG HTML, 9.2.6). An incomplete event at the end is dropped. */
export function parseSse(text: string): SseEvent[] {
  const events: SseEvent[] = [];
  let id = '';
  for (const block of text.split(/\r\n\r\n|\n\n|\r\r/).slice(0, -1)) {
    let event = 'message';
    const data: string[] = [];
    for (const line of block.split(/\r\n|\n|\r/)) {
      const [, field, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
      if (field === 'id') id = value;
      if (field === 'event') event = value;
      if (field === 'data') data.push(value);
    }
    if (data.length > 0) events.push({ id, event, data: data.join('\n') });
  }
  return events;
}
