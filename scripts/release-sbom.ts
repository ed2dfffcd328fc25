// The bill of materials of a release, from the one that npm makes of the lock file.
import packageLock from '../package-lock.json' with { type: 'json' };

export interface Component {
  'bom-ref': string;
  name: string;
  version: string;
  purl: string;
  licenses: unknown[];
}

/** The part of CycloneDX that is used here. */
export interface Bill {
  serialNumber?: string;
  metadata: { timestamp?: string; component: Component };
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
}

interface LockedPackage {
  name?: string;
  version?: string;
  dev?: boolean;
  link?: boolean;
}

/**
 * Keeps what runs at a site: npm's own `--omit dev` also omits packages that both the program and a tool of the developers
 * need. Without time and random id the same sources give the same bytes.
 */
export function runtimeBill({ serialNumber: _, metadata, components, dependencies, ...rest }: Bill): Bill {
  const refs = findRuntimeRefs();
  const { timestamp: __, component, ...otherMetadata } = metadata;
  return {
    ...rest,
    metadata: { ...otherMetadata, component: withRealName(component) },
    components: components.filter((item) => refs.has(item['bom-ref'])).map(withRealName),
    dependencies: dependencies
      .filter(({ ref }) => refs.has(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((other) => refs.has(other)) })),
  };
}

/** Name and version of Bursar and of all packages that are not for developers only. */
function findRuntimeRefs(): Set<string> {
  const packages = Object.entries(packageLock.packages as Record<string, LockedPackage>);
  // npm knows no optional packages for developers: those of test/oldest-node are optional, because each is for one platform.
  const runtime = packages.filter(
    ([path, { dev, link }]) => dev !== true && link !== true && !path.startsWith('test/'),
  );
  return new Set(runtime.map(([path, { name = nameOf(path), version }]) => `${name}@${version}`));
}

const nameOf = (path: string) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);

/** npm names Bursar's own packages after the folders in which they happen to be. */
function withRealName(component: Component): Component {
  const ref = component['bom-ref'];
  return { ...component, name: ref.slice(0, ref.lastIndexOf('@')) };
}
