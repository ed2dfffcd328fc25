/** The patterns of texts in requests, each with the rule that a message states. */
export const patterns = {
  reason: { pattern: '\\S\\s*\\S\\s*\\S', rule: 'must have at least three characters' },
  visibleText: { pattern: '\\S', rule: 'must not be blank' },
  user: { pattern: '^\\d{1,20}$', rule: 'must be the number of a user' },
  projectName: {
    pattern: '^[a-z0-9][a-z0-9_-]{0,63}$',
    rule: 'must have 1 to 64 lower-case letters, digits, "-" and "_", and begin with a letter or digit',
  },
  offset: { pattern: '^\\d{1,15}$', rule: 'must be a number of bytes' },
} as const;
