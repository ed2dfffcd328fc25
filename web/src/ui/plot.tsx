import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import styles from './plot.module.css';

export interface PlotProps {
  /** Epoch seconds. */
  times: readonly number[];
  series: readonly { label: string; values: readonly (number | null)[]; form?: 'line' | 'steps' | 'bars' }[];
  /** Formats the values of the axis and of the legend. */
  format: (value: number) => string;
}

const colours = ['--accent', '--warning', '--good', '--bad'];

/**
 * A plot over time. Load it with `lazy`, and show a table with the same numbers beside it: a canvas says nothing to screen
 * readers.
 */
export default function Plot({ times, series, format }: PlotProps) {
  const element = useRef<HTMLDivElement>(null);

  useEffect(() => {
    const container = element.current;
    if (container === null) return;
    let plot: uPlot | undefined;
    const draw = () => {
      plot?.destroy();
      plot = createPlot(container, { times, series, format });
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
  }, [times, series, format]);

  return <div ref={element} className={styles.plot} aria-hidden="true" />;
}

function createPlot(container: HTMLElement, { times, series, format }: PlotProps): uPlot {
  const computed = getComputedStyle(container);
  // A canvas does not know `light-dark()`: an element resolves it.
  const probe = container.appendChild(document.createElement('span'));
  const colourOf = (name: string) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const axis = {
    stroke: colourOf('--text-muted'),
    grid: { stroke: colourOf('--line') },
    ticks: { stroke: colourOf('--line') },
  };
  const forms = {
    line: undefined,
    steps: uPlot.paths.stepped?.({ align: 1 }),
    bars: uPlot.paths.bars?.({ size: [0.8] }),
  };
  const options: uPlot.Options = {
    width: container.clientWidth,
    height: 240,
    axes: [
      axis,
      { ...axis, size: 80, values: (_plot, values) => values.map(format), font: `12px ${computed.fontFamily}` },
    ],
    series: [
      {},
      ...series.map(({ label, form = 'line' }, index) => {
        const stroke = colourOf(colours[index % colours.length] ?? '--accent');
        const paths = forms[form];
        return {
          label,
          stroke,
          width: 2,
          points: { show: false },
          value: (_plot: uPlot, value: number | null) => (value === null ? '–' : format(value)),
          ...(form === 'bars' ? { fill: stroke } : {}),
          ...(paths === undefined ? {} : { paths }),
        };
      }),
    ],
  };
  const plot = new uPlot(
    options,
    [[...times], ...series.map(({ values }) => [...values])] as uPlot.AlignedData,
    container,
  );
  probe.remove();
  return plot;
}
