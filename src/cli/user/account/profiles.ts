import type { Context } from '../context.ts';
import { unknownProfile } from '../profiles/connect.ts';
import { type Profile, readProfiles, updateProfiles } from '../profiles/store.ts';
import { relativeTime } from '../terminal/time.ts';

type Row = Omit<Profile, 'token' | 'issuer' | 'token_id'> & { name: string; current: boolean; issuer?: string };

/** Lists the profiles, without their tokens. */
export async function run(context: Context): Promise<void> {
  const { current, profiles } = await readProfiles(context.env);
  const chosen = context.options.profile ?? (context.env.BURSAR_PROFILE || current);
  const rows = Object.entries(profiles).map(([name, { token: _, token_id: __, issuer, ...profile }]): Row => {
    return { name, current: name === chosen, ...profile, ...(issuer === undefined ? {} : { issuer: issuer.issuer }) };
  });
  await context.printTable(
    rows,
    [
      { title: 'Current', value: (row) => (row.current ? '*' : '') },
      { title: 'Profile', value: (row) => row.name, colour: (row) => (row.current ? 'green' : undefined) },
      { title: 'Server', value: (row) => row.url, flexible: true },
      { title: 'User', value: (row) => row.user },
      {
        title: 'Token ends',
        value: (row) => (row.expires_at === undefined ? 'never' : relativeTime(row.expires_at, context.now())),
        plain: (row) => row.expires_at ?? '',
      },
    ],
    'There are no profiles. Run: bursar login https://address.of.the.server',
  );
}

/** Makes a profile the default. */
export async function use(context: Context, { name }: { name: string }): Promise<void> {
  await updateProfiles(context.env, (file) => {
    if (file.profiles[name] === undefined) throw unknownProfile(name, Object.keys(file.profiles));
    file.current = name;
  });
  context.note(`By default commands use the profile "${name}".`);
}
