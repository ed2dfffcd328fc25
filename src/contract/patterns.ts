/** The patterns of texts in requests, each with the rule that a message states. */
export const patterns = {
  reason: { pattern: '\\S\\s*\\S\\s*\\S', rule: 'must have at least three characters' },
  visibleText: { pattern: '\\S', rule: 'must not be blank' },
  oneLine: { pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$', rule: 'must not have control characters' },
  user: { pattern: '^\\d{1,20}$', rule: 'must be the number of a user' },
  projectName: {
    pattern: '^[a-z0-9][a-z0-9_-]{0,63}$',
    rule: 'must have 1 to 64 lower-case letters, digits, "-" and "_", and begin with a letter or digit',
  },
  jobIdPrefix: {
    pattern: '^[\\w-]{1,100}$',
    rule: 'must be the beginning of a job id: 1 to 100 letters, digits, "-" and "_"',
  },
  eventPosition: {
    pattern: '^(latest|\\d{1,15})?$',
    rule: 'must be the id of an event that you have received, or `latest`',
  },
  offset: { pattern: '^\\d{1,15}$', rule: 'must be a number of bytes' },
} as const;
