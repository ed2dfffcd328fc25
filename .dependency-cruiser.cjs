// Imports point inward (docs/architecture.md, "Modules"). Each layer lists the layers that it may import.
const mayImport = {
  domain: [],
  config: ['domain', 'engines'],
  contract: ['domain'],
  store: ['domain', 'config'],
  metrics: [],
  tracing: [],
  shell: ['domain'],
  files: ['domain', 'shell'],
  engines: ['domain', 'shell', 'files'],
  webhooks: ['domain'],
  services: ['domain', 'config', 'contract', 'store', 'files', 'metrics', 'webhooks'],
  workers: ['domain', 'config', 'contract', 'store', 'files', 'engines', 'metrics', 'tracing', 'webhooks'],
  http: ['domain', 'config', 'contract', 'services', 'metrics', 'tracing'],
  doctor: ['domain', 'engines', 'files', 'shell'],
};

/** The part of the engines that clients have too. */
const commandLanguages = '^src/engines/(command-languages|[^/]+/[^/]+-language)\\.ts$';

const layers = Object.entries(mayImport).map(([layer, allowed]) => ({
  name: `${layer}-imports-inward`,
  comment: `src/${layer} may import only: ${[layer, ...allowed].join(', ')}`,
  severity: 'error',
  from: { path: `^src/${layer}/` },
  to: { path: '^src/', pathNot: `^src/(${[layer, ...allowed].join('|')})/` },
}));

/** The parts of src/http from the inside: each may import those before it. */
const httpParts = ['limits/', 'request/', 'response/', 'operation.ts', 'openapi/', 'routes/', 'server/'];
const httpOrder = httpParts.slice(0, -1).map((part, index) => ({
  name: `http-${part}-imports-inward`,
  comment: `src/http/${part} may import only: ${httpParts.slice(0, index + 1).join(', ')}`,
  severity: 'error',
  from: { path: `^src/http/${part}` },
  to: { path: `^src/http/(${httpParts.slice(index + 1).join('|')})` },
}));

module.exports = {
  forbidden: [
    ...layers,
    {
      name: 'domain-is-pure',
      comment: 'the domain imports no package and no part of Node: clock, identifiers and randomness are arguments',
      severity: 'error',
      from: { path: '^src/domain/' },
      to: { pathNot: '^src/domain/' },
    },
    ...httpOrder,
    {
      name: 'users-commands-have-no-server-code',
      comment:
        'users run these commands without a server: they import the client, the domain, the contract, the zip rules and the command languages',
      severity: 'error',
      from: { path: '^src/cli/(user/|user-program|run-program|host)' },
      to: {
        path: '^src/',
        pathNot: ['^src/(cli/(user/|run-program|host)|domain/|contract/|files/zip/)', commandLanguages],
      },
    },
    {
      name: 'features-are-independent',
      comment: 'a feature of the web page imports no other feature: common parts are in web/src/shared',
      severity: 'error',
      from: { path: '^web/src/features/([^/]+)/' },
      to: { path: '^web/src/(features|app)/', pathNot: '^web/src/features/$1/' },
    },
    {
      name: 'ui-knows-nothing-of-bursar',
      comment: 'web/src/ui has the parts that any web page could use',
      severity: 'error',
      from: { path: '^web/src/ui/' },
      to: { path: '^(web/src/(?!ui/)|clients/|src/)' },
    },
    {
      name: 'web-has-no-server-code',
      comment: 'the web page imports the client, the domain, the zip rules and the command languages',
      severity: 'error',
      from: { path: '^web/src/' },
      to: { path: '^src/', pathNot: ['^src/(domain|files/zip)/', commandLanguages] },
    },
    {
      name: 'command-languages-are-pure',
      comment: 'the web page and the commands of users import them',
      severity: 'error',
      from: { path: commandLanguages },
      to: { pathNot: ['^src/domain/', commandLanguages] },
    },
    {
      name: 'engines-are-independent',
      comment: 'common parts are in src/engines/batch and src/engines/sandbox',
      severity: 'error',
      from: { path: '^src/engines/([^/]+)/' },
      to: { path: '^src/engines/[^/]+/', pathNot: ['^src/engines/($1|batch|sandbox)/', commandLanguages] },
    },
    {
      name: 'only-the-registry-knows-engines',
      comment: 'everything else uses the definition of an engine, src/engines/definition.ts',
      severity: 'error',
      from: { path: '^src/', pathNot: ['^src/engines/[^/]+/', '^src/engines/registry\\.ts$'] },
      to: { path: '^src/engines/[^/]+/', pathNot: ['^src/engines/(batch|sandbox)/', commandLanguages] },
    },
    {
      name: 'queries-are-in-store',
      comment: 'only the store imports the query builder and the database drivers',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/store/' },
      to: { path: 'node_modules/(kysely|better-sqlite3|pg)/' },
    },
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    { name: 'no-tests-in-src', severity: 'error', from: { path: '^src/' }, to: { path: '^(test|scripts)/' } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { extensions: ['.ts', '.tsx', '.js', '.mjs', '.json'] },
  },
};
