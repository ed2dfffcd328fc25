/**
 * True with BURSAR_TEST_LONG=true, as `npm run test:long` sets it: tests that repeat one check with random or large input then
 * run in full length. `npm test` runs the same checks with less input.
 */
export const isLongRun = process.env.BURSAR_TEST_LONG === 'true';
