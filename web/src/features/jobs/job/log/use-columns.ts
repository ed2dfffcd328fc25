import { type RefObject, useLayoutEffect, useState } from 'react';

const probeLength = 100;

/** The number of characters that fit beside the line numbers, which changes with the width of the window. */
export function useColumns(scroller: RefObject<HTMLElement | null>, gutterWidth: number): number {
  const [columns, setColumns] = useState(80);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const measure = () => {
      const probe = element.appendChild(document.createElement('span'));
      probe.textContent = '0'.repeat(probeLength);
      probe.style.position = 'absolute';
      const characterWidth = probe.getBoundingClientRect().width / probeLength;
      probe.remove();
      setColumns(Math.max(20, Math.floor(element.clientWidth / characterWidth) - gutterWidth - 2));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [scroller, gutterWidth]);
  return columns;
}
