import Type from 'typebox';
import { namedObject } from './fields.ts';

const server = 'https://bursar.example.org';

/** A program or a library for users that this server offers. */
export const ClientPackageSchema = namedObject(
  'ClientPackage',
  {
    name: Type.String({ description: 'The name of the file.' }),
    description: Type.String(),
    install: Type.String({ description: 'The command that installs it.' }),
    url: Type.String({ description: 'Address of the download.' }),
    size: Type.Integer({ description: 'Bytes.' }),
    sha256: Type.String({ description: 'SHA-256 of the file, in hexadecimal.' }),
  },
  {
    name: 'bursar.mjs',
    description: 'The command line, as one file for Node 20.15 or newer.',
    install: `curl -O ${server}/clients/bursar.mjs`,
    url: `${server}/clients/bursar.mjs`,
    size: 204_800,
    sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  },
);
