import type { BursarError } from '../domain/errors.ts';
import { unavailable } from './shell-errors.ts';
import type { SshTarget } from './ssh-target.ts';

/** Says what is wrong with a connection and what to do about it, from ssh's own words. */
export function connectionError(target: SshTarget, said: string): BursarError {
  const text = said.trim();
  const remedy = remedies(target).find(({ sign }) => sign.test(text))?.remedy;
  const lastLine = text.split('\n').at(-1)?.trim() || 'ssh did not say why';
  return unavailable(`Bursar has no connection to ${target.host}: ${remedy ?? lastLine}.`, new Error(text));
}

function remedies({ host, user, port, identityFile, knownHostsFile }: SshTarget) {
  const known = knownHostsFile ?? '~/.ssh/known_hosts';
  const scan = `ssh-keyscan ${port ? `-p ${port} ` : ''}${host} >> ${known}`;
  const pin = `run "${scan}" and compare "ssh-keygen -lf ${known}" with the fingerprint that its site has published`;
  const key = identityFile ? `the key ${identityFile}` : 'the keys of its ssh_config and agent';
  const account = user ? `the account ${user}` : 'the account';
  const name = port ? `[${host}]:${port}` : host;
  return [
    {
      sign: /IDENTIFICATION HAS CHANGED|host key .*has changed/i,
      remedy: `its host key is not the pinned one. Ask its site whether the key was changed; only if so, run "ssh-keygen -R '${name}' -f ${known}", then ${pin}`,
    },
    {
      sign: /Host key verification failed|host key is known/i,
      remedy: `its host key is not known. To pin it, as the user that runs Bursar, ${pin}`,
    },
    {
      sign: /Permission denied/i,
      remedy: `it did not accept ${key} for ${account}. Add the public key to ~/.ssh/authorized_keys there`,
    },
    { sign: /Could not resolve/i, remedy: 'there is no host of this name. Correct the name, or look at the DNS' },
    {
      sign: /Connection refused|timed out|No route|unreachable|Connection reset|Connection closed|did not answer/i,
      remedy: `it cannot be reached${port ? ` at port ${port}` : ''}. Is it up, and does a firewall let ssh through`,
    },
  ];
}
