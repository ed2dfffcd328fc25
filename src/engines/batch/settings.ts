import Type, { type Static, type TObject } from 'typebox';
import { optionalText, positiveInt } from '../settings.ts';

const Ssh = Type.Object(
  {
    host: Type.String({ pattern: '^[\\w.:-]+$', description: 'Host name, or an alias from ssh_config.' }),
    user: optionalText('User name of the service account.', { pattern: '^[\\w.-]+$' }),
    port: Type.Optional(Type.Integer({ minimum: 1, maximum: 65535 })),
    configFile: optionalText('Path of an ssh_config file. Default: that of the user who runs Bursar.'),
    knownHostsFile: optionalText('Path of a known_hosts file with the key of the host.'),
    identityFile: optionalText('Path of the private key.'),
    connectTimeoutSeconds: positiveInt(10, 'Connection timeout, in seconds.'),
  },
  {
    additionalProperties: false,
    description: 'Runs the commands of the scheduler over ssh. Default: on the host of Bursar.',
  },
);

/** The keys of `engine` that every batch scheduler has. `example`: a variable of its commands. */
export const batchKeys = (scheduler: string, example: string) => ({
  ssh: Type.Optional(Ssh),
  workspaceFolder: optionalText(
    'Folder for workspaces; the path must be the same on all nodes. Default: in the data folder.',
    { pattern: '^/' },
  ),
  environment: Type.Record(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]*$' }), Type.String(), {
    additionalProperties: false,
    default: {},
    description: `Environment variables of the ${scheduler} commands, such as \`${example}\`.`,
  }),
  commandTimeoutSeconds: positiveInt(
    30,
    `Timeout of one ${scheduler} command and, with \`ssh\`, of a request for files or logs until their first byte, in seconds.`,
  ),
});

export type BatchSettings = Static<TObject<ReturnType<typeof batchKeys>>> & { kind: string; site: object };
