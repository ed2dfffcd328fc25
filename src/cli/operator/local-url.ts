/** The URL at which this host reaches a server that listens on an address. */
export function localUrl(address: string, port: number): string {
  const host = ['0.0.0.0', '::'].includes(address) ? '127.0.0.1' : address;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
