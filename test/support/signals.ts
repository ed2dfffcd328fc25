/** For calls that no test aborts. */
export const notAborted = new AbortController().signal;
