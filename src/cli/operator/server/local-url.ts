/** The URL at which this host reaches a server that listens on an address. */
export function localUrl(address: string, port: number, hasTls: boolean): string {
  const host = ['0.0.0.0', '::'].includes(address) ? '127.0.0.1' : address;
  return `${hasTls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
