import type { JobFile } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { formatBytes } from '../../../../../../src/domain/format-amount.ts';
import { buttonClass } from '../../../../ui/button.tsx';
import { Card } from '../../../../ui/card.tsx';
import { Preformatted } from '../../../../ui/preformatted.tsx';
import { EmptyState, QueryView, Skeleton } from '../../../../ui/states.tsx';
import { Table } from '../../../../ui/table.tsx';
import type { JobSource } from '../job-source.ts';
import styles from './file-preview.module.css';
import type { CsvTable } from './parse-csv.ts';
import { maxCsvRows, maxTextBytes, type Preview, previewQuery } from './preview-query.ts';

export function FilePreview({ source, file }: { source: JobSource; file: JobFile }) {
  const preview = useQuery(previewQuery(source, file));
  return (
    <Card
      title={<span className={styles.title}>{file.path}</span>}
      actions={
        <>
          <span className="muted">{formatBytes(file.size)}</span>
          <a className={buttonClass()} href={source.fileUrl(file.path)} download>
            Download
          </a>
        </>
      }
    >
      <QueryView query={preview} loading={<Skeleton height="20rem" />}>
        {(data) => <Content preview={data} path={file.path} />}
      </QueryView>
    </Card>
  );
}

function Content({ preview, path }: { preview: Preview; path: string }) {
  switch (preview.kind) {
    case 'none':
      return <EmptyState title="No preview">{preview.why}</EmptyState>;
    case 'image':
      return <ImagePreview blob={preview.blob} path={path} />;
    case 'csv':
      return <CsvPreview table={preview.table} path={path} />;
    case 'text':
      return (
        <>
          <Preformatted text={preview.text} maxHeight="70vh" />
          {preview.isCut && (
            <p className="muted">The first {formatBytes(maxTextBytes)}. Download the file for all of it.</p>
          )}
        </>
      );
    default:
      return preview satisfies never;
  }
}

function ImagePreview({ blob, path }: { blob: Blob; path: string }) {
  const [url, setUrl] = useState<string>();
  const [isBroken, setBroken] = useState(false);
  useEffect(() => {
    const created = URL.createObjectURL(blob);
    setUrl(created);
    setBroken(false);
    return () => URL.revokeObjectURL(created);
  }, [blob]);
  if (isBroken) return <EmptyState title="No preview">The file is not an image that a browser can show.</EmptyState>;
  return (
    <div className={styles.frame}>
      {url !== undefined && (
        <img className={styles.image} src={url} alt={`Preview of ${path}`} onError={() => setBroken(true)} />
      )}
    </div>
  );
}

function CsvPreview({ table, path }: { table: CsvTable; path: string }) {
  const { header, rows, isCut } = table;
  // A column of numbers is aligned to the right, with its name.
  const columnClasses = header.map((_, index) =>
    rows.every((row) => isNumber(row[index] ?? '')) ? 'number' : undefined,
  );
  return (
    <div className={styles.csv}>
      <Table label={`Rows of ${path}`}>
        <thead>
          <tr>
            {header.map((name, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: columns may have the same name
              <th key={index} scope="col" className={columnClasses[index]}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, rowIndex) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows have no name
            <tr key={rowIndex}>
              {row.map((value, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: neither have values
                <td key={index} className={columnClasses[index]}>
                  {value}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </Table>
      {isCut && <p className="muted">The first {maxCsvRows} rows at most. Download the file for all of it.</p>}
    </div>
  );
}

const isNumber = (value: string) => value.trim() !== '' && Number.isFinite(Number(value));
