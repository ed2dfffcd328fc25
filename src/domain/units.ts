/** Configuration and API count space in KB of 1,000 bytes; the ledger counts bytes. */
export const bytesPerKb = 1000;
export const secondsPerHour = 3600;
export const msPerMinute = 60_000;
export const msPerHour = 3_600_000;
export const msPerDay = 86_400_000;

/** The units of amounts in the API. `size` is the number of ledger units (seconds, bytes) in one public unit. */
export const publicUnits = {
  time: { name: 'seconds', size: 1 },
  space: { name: 'KB', size: bytesPerKb },
} as const;
