// The parts of Node's modules that yauzl and the rules for zips use in a browser. The build puts this file in the place of
// `buffer`, `events`, `fs`, `stream`, `util` and `zlib`.

export { Buffer } from './buffer.ts';

/** Whether the bytes are valid UTF-8. */
export function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

type Listener = (...values: unknown[]) => void;
const listenersOf = new WeakMap<object, Map<string, Listener[]>>();

/** A function, not a class: yauzl calls it without `new`. */
export function EventEmitter(): void {}

EventEmitter.prototype.on = function on(name: string, listener: Listener) {
  const byName = listenersOf.get(this) ?? new Map<string, Listener[]>();
  listenersOf.set(this, byName.set(name, [...(byName.get(name) ?? []), listener]));
  return this;
};
/** Only for `close`, which happens once. */
EventEmitter.prototype.once = EventEmitter.prototype.on;
EventEmitter.prototype.removeListener = function removeListener(name: string, listener: Listener) {
  const byName = listenersOf.get(this);
  byName?.set(name, byName.get(name)?.filter((each) => each !== listener) ?? []);
  return this;
};
EventEmitter.prototype.emit = function emit(name: string, ...values: unknown[]) {
  for (const listener of listenersOf.get(this)?.get(name) ?? []) listener.apply(this, values);
};

export function inherits(child: { prototype: object }, parent: { prototype: object }): void {
  Object.setPrototypeOf(child.prototype, parent.prototype);
}

// yauzl derives from these when it is loaded. Only the contents of entries need them, and pages do not read those.
export function Readable(): void {}
export function Writable(): void {}
export function Transform(): void {}
export function PassThrough(): void {}
