import uPlot from 'uplot';

export interface PlotProps {
  /** Epoch seconds. */
  times: readonly number[];
  series: readonly {
    label: string;
    values: readonly (number | null)[];
    /** Bars of several series are stacked. */
    form?: 'line' | 'steps' | 'bars' | 'dashes';
  }[];
  /** Vertical lines, such as for today. */
  marks?: readonly { time: number; label: string }[];
  /** Formats the values of the axis and of the legend. */
  format: (value: number) => string;
}

const colours = Array.from({ length: 9 }, (_, index) => `--plot-${index + 1}`);

const second = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const hour = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const month = new Intl.DateTimeFormat(undefined, { month: 'short', year: 'numeric' });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

const dateOf = (seconds: number) => new Date(seconds * 1000);

/** The labels of the time axis, whose steps have this many seconds. */
function formatTimes(times: readonly number[], step: number): string[] {
  const format = step < 60 ? second : step < 86_400 ? hour : step < 28 * 86_400 ? day : month;
  return times.map((time, index) => {
    const date = dateOf(time);
    // Hours alone would not say of which day they are.
    const startsDay = step < 86_400 && (index === 0 || (date.getHours() === 0 && date.getMinutes() === 0));
    return startsDay ? `${format.format(date)}\n${day.format(date)}` : format.format(date);
  });
}

/** Draws a plot into an element. The caller destroys it. */
export function createPlot(container: HTMLElement, props: Required<PlotProps>): uPlot {
  const { times, series, format } = props;
  const isBars = series.some(({ form }) => form === 'bars');
  const barSeconds = isBars ? smallestGap(times) : 0;
  const isMonthly = barSeconds >= 28 * 86_400;
  const timeFormat = isMonthly ? month : full;
  const colourOf = createColourReader(container);
  const font = `12px ${getComputedStyle(container).fontFamily}`;
  const axis = {
    font,
    stroke: colourOf('--text-muted'),
    grid: { stroke: colourOf('--line'), width: 1 },
    ticks: { stroke: colourOf('--line'), width: 1 },
  };
  const options: uPlot.Options = {
    width: container.clientWidth,
    height: 240,
    padding: [props.marks.length > 0 ? 36 : 12, 24, null, null],
    // The axis of amounts begins at zero, or below it if there are such values.
    scales: {
      ...(isBars ? { x: { range: (_plot, min, max) => [min - barSeconds / 2, max + barSeconds / 2] } } : {}),
      y: { range: (_plot, min, max) => [Math.min(0, min), max > 0 ? max * 1.05 : 1] },
    },
    axes: [
      {
        ...axis,
        values: (_plot, splits, _axis, _space, step) => formatTimes(splits, step),
        ...(isMonthly ? monthAxis(times) : {}),
      },
      { ...axis, size: (_plot, values) => widthOf(values), values: (_plot, splits) => splits.map(format) },
    ],
    series: [
      {
        label: 'Time',
        value: (_plot, value: number | null) => (value === null ? '–' : timeFormat.format(dateOf(value))),
      },
      ...series.map((each, index) => seriesOptions(each, colourOf(colours[index % colours.length] ?? ''), format)),
    ],
    hooks: { draw: [(plot) => drawMarks(plot, props.marks, colourOf, font)] },
  };
  const data = [[...times], ...(isBars ? stackValues(series) : series.map(({ values }) => [...values]))];
  return new uPlot(options, data as uPlot.AlignedData, container);
}

/** Bars stand on each other, the last series at the bottom. Each is drawn over the ones before it, from zero to its top. */
function stackValues(series: PlotProps['series']): number[][] {
  const tops: number[][] = [];
  for (const { values } of series.toReversed()) {
    const below = tops.at(-1);
    tops.push(values.map((value, index) => (value ?? 0) + (below?.[index] ?? 0)));
  }
  return tops.toReversed();
}

/** One label below each bar, or below every second or third one if the plot is too narrow for all. */
function monthAxis(times: readonly number[]): uPlot.Axis {
  const labelPixels = 80;
  return {
    splits: (plot) => {
      const every = Math.max(1, Math.ceil((times.length * labelPixels) / plot.width));
      return times.filter((_, index) => (times.length - 1 - index) % every === 0);
    },
    values: (_plot, splits) => splits.map((time) => month.format(dateOf(time))),
  };
}

/** A single bar is as wide as a month. */
function smallestGap(times: readonly number[]): number {
  const gaps = times.slice(1).map((time, index) => time - (times[index] ?? 0));
  return gaps.length === 0 ? 30 * 86_400 : Math.min(...gaps);
}

/** The width of the axis of amounts. Its values are null before they are known. */
function widthOf(values: readonly string[] | null): number {
  return 16 + 7.2 * Math.max(3, ...(values ?? []).map(({ length }) => length));
}

function seriesOptions(
  { label, values, form = 'line' }: PlotProps['series'][number],
  stroke: string,
  format: PlotProps['format'],
): uPlot.Series {
  const forms = {
    line: {},
    dashes: { dash: [6, 5] },
    steps: { paths: uPlot.paths.stepped?.({ align: 1 }) },
    // An outline would show months without any usage.
    bars: { paths: uPlot.paths.bars?.({ size: [0.8] }), fill: stroke, width: 0 },
  };
  return {
    label,
    stroke,
    width: 2,
    points: { show: false },
    // Not the value that is drawn, which is a sum in a stack of bars.
    value: (_plot: uPlot, _drawn: number | null, _series: number, index: number | null) => {
      const value = index === null ? null : (values[index] ?? null);
      return value === null ? '–' : format(value);
    },
    ...forms[form],
  } as uPlot.Series;
}

/** A canvas does not know `light-dark()`: an element resolves it. */
function createColourReader(container: HTMLElement): (name: string) => string {
  return (name) => {
    const probe = container.appendChild(document.createElement('span'));
    probe.style.color = `var(${name})`;
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  };
}

function drawMarks(
  plot: uPlot,
  marks: Required<PlotProps>['marks'],
  colourOf: (name: string) => string,
  font: string,
): void {
  const { ctx, bbox } = plot;
  const ratio = window.devicePixelRatio || 1;
  ctx.save();
  ctx.strokeStyle = colourOf('--line-strong');
  ctx.fillStyle = colourOf('--text-muted');
  ctx.lineWidth = ratio;
  // The series and the axes have left their own.
  ctx.setLineDash([]);
  ctx.textAlign = 'left';
  ctx.textBaseline = 'alphabetic';
  ctx.font = font.replace('12px', `${12 * ratio}px`);
  let lastRight = Number.NEGATIVE_INFINITY;
  for (const { time, label } of marks) {
    const x = Math.round(plot.valToPos(time, 'x', true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    // The label is above the plot, within its width, and above the label before it if they would overlap.
    const { width } = ctx.measureText(label);
    const left = Math.min(x - width / 2, ctx.canvas.width - width - 4 * ratio);
    const line = left < lastRight + 8 * ratio ? 1 : 0;
    ctx.fillText(label, left, bbox.top - (6 + 15 * line) * ratio);
    lastRight = left + width;
  }
  ctx.restore();
}
