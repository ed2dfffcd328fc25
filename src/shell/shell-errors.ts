import { BursarError } from '../domain/errors.ts';
import type { SshTarget } from './ssh-target.ts';

/** The only kind of failure of a shell: the same command may work later. This time it may or may not have taken effect. */
export function unavailableError(message: string, cause?: unknown): BursarError {
  return new BursarError('unavailable', message, { cause, transient: true });
}

/** `label` names the program and its host, never its arguments: they may contain user data. */
export const timeoutError = (label: string, timeoutMs: number) =>
  unavailableError(`${label} did not answer within ${Math.round(timeoutMs / 100) / 10} s. Try again later.`);

export const interruptedError = (label: string, signal: AbortSignal) =>
  unavailableError(`${label} was interrupted.`, signal.reason);

/** Explains from ssh's own error output what is wrong with a connection and how to fix it. */
export function connectionError(target: SshTarget, sshOutput: string): BursarError {
  const output = sshOutput.trim();
  const problem = knownProblems(target).find(({ pattern }) => pattern.test(output))?.problem;
  const lastLine = output.split('\n').at(-1)?.trim() || 'ssh did not say why';
  return unavailableError(`Bursar has no connection to ${target.host}: ${problem ?? lastLine}.`, new Error(output));
}

function knownProblems({ host, user, port, identityFile, knownHostsFile }: SshTarget) {
  const knownHosts = knownHostsFile ?? '~/.ssh/known_hosts';
  const scan = `ssh-keyscan ${port ? `-p ${port} ` : ''}${host} >> ${knownHosts}`;
  const pin = `run "${scan}" and compare "ssh-keygen -lf ${knownHosts}" with the fingerprint that its site has published`;
  const key = identityFile ? `the key ${identityFile}` : 'the keys of its ssh_config and agent';
  const account = user ? `the account ${user}` : 'the account';
  const knownHostsName = port ? `[${host}]:${port}` : host;
  return [
    {
      pattern: /IDENTIFICATION HAS CHANGED|host key .*has changed/i,
      problem: `its host key is not the pinned one. Ask its site whether the key was changed; only if so, run "ssh-keygen -R '${knownHostsName}' -f ${knownHosts}", then ${pin}`,
    },
    {
      pattern: /Host key verification failed|host key is known/i,
      problem: `its host key is not known. To pin it, as the user that runs Bursar, ${pin}`,
    },
    {
      pattern: /Permission denied/i,
      problem: `it did not accept ${key} for ${account}. Add the public key to ~/.ssh/authorized_keys there`,
    },
    {
      pattern: /Could not resolve/i,
      problem: 'there is no host of this name. Correct the name, or check the DNS',
    },
    {
      pattern: /Connection refused|timed out|No route|unreachable|Connection reset|Connection closed|did not answer/i,
      problem: `it cannot be reached${port ? ` at port ${port}` : ''}. Check that it is up and that no firewall blocks ssh`,
    },
  ];
}
