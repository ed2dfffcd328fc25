import assert from 'node:assert/strict';

/** Words that tell the reader of an error message what to do, or what would be accepted. */
export const advice =
  /\b(send|make|ask|use|see|shorten|try|choose|give|write|close|remove|generate|pack|replace|rename|leave|go in|wait|sign|correct|check|list|lists|get|create|known are|allowed are|must|is required|needs?|takes|starts? from|one of)\b/i;

/** Asserts that the message says what to do, not only what is wrong. */
export function assertGivesAdvice(message: string): void {
  assert.match(message, advice);
}
