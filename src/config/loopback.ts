/** True if only programs of this host can connect to this address. An IPv6 address may have brackets, as in a URL. */
export function isLoopback(host: string): boolean {
  return /^(localhost|::1|\[::1\]|127(\.\d{1,3}){3})$/.test(host);
}
