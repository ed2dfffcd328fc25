import { Buffer } from './modules.ts';

// Import this file before yauzl and the rules for zips: they use these globals of Node.
const globals = globalThis as { Buffer?: unknown; setImmediate?: unknown };
globals.Buffer ??= Buffer;
globals.setImmediate ??= (callback: () => void) => setTimeout(callback, 0);
