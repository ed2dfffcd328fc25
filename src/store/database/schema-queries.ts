/**
 * Queries that describe the schema: one row for each column, key, index and trigger. Both databases give the same rows, so
 * that one file holds the expected schema of both. Names of constraints, the order of columns and the conditions of partial
 * indexes are left out: they differ between the databases and between their versions.
 */
export const sqliteSchemaQuery = `
  with t as (
    select name from sqlite_master where type = 'table' and name not like 'sqlite%' and name not like 'kysely%'),
  i as (
    select t.name as "table", l.name, l.origin, l."unique", l.partial,
      (select group_concat(coalesce(name, 'expression'), ', ' order by seqno) from pragma_index_info(l.name)) as columns
    from t, pragma_index_list(t.name) l)
  select 'column ' || t.name || '.' || c.name as object,
    iif(c.pk > 0 and lower(c.type) = 'integer', 'identity',
      replace(lower(c.type), 'blob', 'bytes') || iif(c."notnull" or c.pk > 0, ' not null', '')
      || coalesce(' default ' || c.dflt_value, '')) as definition
  from t, pragma_table_info(t.name) c
  union all
  select 'primary key ' || t.name,
    coalesce((select group_concat(name, ', ' order by pk) from pragma_table_info(t.name) where pk > 0), 'none')
  from t
  union all
  select 'unique ' || "table" || ' (' || columns || ')', 'unique' from i where origin = 'u'
  union all
  select 'index ' || name, iif("unique", 'unique ', '') || 'on ' || "table" || ' (' || columns || ')'
    || iif(partial, ' partial', '')
  from i where origin = 'c'
  union all
  select 'foreign key ' || t.name || '.' || f."from", f."table" || '.' || f."to" from t, pragma_foreign_key_list(t.name) f
  union all
  select 'trigger ' || tbl_name || ' before ' || iif(sql like '%before update%', 'update', 'delete'), 'trigger'
  from sqlite_master where type = 'trigger'`;

export const postgresSchemaQuery = `
  with t as (
    select oid, relname as name from pg_class
    where relkind = 'r' and relnamespace = (select oid from pg_namespace where nspname = current_schema()) and relname not like 'kysely%'),
  i as (
    select t.name as "table", c.relname as name, x.indisunique, x.indisprimary, x.indpred is not null as partial,
      exists (select from pg_constraint where conindid = x.indexrelid and contype in ('p', 'u')) as is_constraint,
      (select string_agg(coalesce(a.attname, 'expression'), ', ' order by k.n)
       from unnest(x.indkey::int2[]) with ordinality k(attnum, n)
       left join pg_attribute a on a.attrelid = t.oid and a.attnum = k.attnum) as columns
    from t join pg_index x on x.indrelid = t.oid join pg_class c on c.oid = x.indexrelid)
  select 'column ' || t.name || '.' || a.attname as object,
    case when a.attidentity <> '' then 'identity' else
      replace(format_type(a.atttypid, a.atttypmod), 'bytea', 'bytes') || case when a.attnotnull then ' not null' else '' end
      || coalesce(' default ' || replace(pg_get_expr(d.adbin, d.adrelid), '::text', ''), '') end as definition
  from t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = t.oid and d.adnum = a.attnum
  union all
  select 'primary key ' || "table", columns from i where indisprimary
  union all
  select 'unique ' || "table" || ' (' || columns || ')', 'unique' from i where is_constraint and not indisprimary
  union all
  select 'index ' || name, case when indisunique then 'unique ' else '' end || 'on ' || "table" || ' (' || columns || ')'
    || case when partial then ' partial' else '' end
  from i where not is_constraint
  union all
  select 'foreign key ' || t.name || '.' || a.attname, p.relname || '.' || b.attname
  from t join pg_constraint f on f.conrelid = t.oid and f.contype = 'f' join pg_class p on p.oid = f.confrelid
    join pg_attribute a on a.attrelid = t.oid and a.attnum = f.conkey[1]
    join pg_attribute b on b.attrelid = p.oid and b.attnum = f.confkey[1]
  union all
  select 'trigger ' || t.name || ' before ' || e.name, 'trigger'
  from t join pg_trigger g on g.tgrelid = t.oid and not g.tgisinternal
    join (values (16, 'update'), (8, 'delete')) as e(bit, name) on g.tgtype & e.bit <> 0 and g.tgtype & 2 <> 0`;
