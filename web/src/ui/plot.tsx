import { useEffect, useRef } from 'react';
import type uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import styles from './plot.module.css';
import { createPlot, type PlotProps } from './plot-options.ts';

const noMarks: NonNullable<PlotProps['marks']> = [];

/**
 * A plot over time. Load it with `lazy`, and show a table with the same numbers beside it: a canvas says nothing to screen
 * readers.
 */
export default function Plot({ times, series, marks = noMarks, format }: PlotProps) {
  const element = useRef<HTMLDivElement>(null);

  useEffect(() => {
    const container = element.current;
    if (container === null) return;
    let plot: uPlot | undefined;
    const draw = () => {
      plot?.destroy();
      plot = createPlot(container, { times, series, marks, format });
    };
    draw();
    const observer = new ResizeObserver(() => plot?.setSize({ width: container.clientWidth, height: 240 }));
    observer.observe(container);
    // The colours are read when it is drawn.
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', draw);
    return () => {
      observer.disconnect();
      scheme.removeEventListener('change', draw);
      plot?.destroy();
    };
  }, [times, series, marks, format]);

  return <div ref={element} className={styles.plot} aria-hidden="true" />;
}
