// A table of any number of rows that draws only those in sight.
import { fill, h, setAttribute } from './dom.js';

const ROW_HEIGHT = 44; // pixels; --row-height in style.css
const NUM_SPARE = 6; // rows drawn above and below what is seen

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} title
 * @property {string} width of a grid's track
 * @property {boolean} isSortable
 */

/**
 * @param {object} options
 * @param {string} options.label
 * @param {(index: number) => (Node | string)[]} options.cells of a row, one a column
 * @param {(index: number) => number} options.version a row is drawn anew when it changes
 * @param {(index: number) => void} options.onopen
 * @param {(key: string) => void} options.onsort
 */
export function rowTable({ label, cells, version, onopen, onsort }) {
  const head = h('div', { role: 'row', class: 'tr head' });
  const body = h('div', { class: 'tbody', role: 'rowgroup' });
  const table = h(
    'div',
    { role: 'table', 'aria-label': label, class: 'table' },
    h('div', { role: 'rowgroup', class: 'thead' }, head),
    body,
  );
  const scroller = h(
    'div',
    { class: 'scroller', tabindex: '0', role: 'region', 'aria-label': `${label}, scrolls`, onscroll: () => schedule() },
    table,
  );
  /** @type {number[]} */
  let order = [];
  /** @type {Map<number, { element: HTMLElement, version: number }>} */
  let drawn = new Map();
  /** The row that the Tab key comes to; the arrow keys go on from there. */
  let current = -1;
  let isScheduled = false;

  function schedule() {
    if (isScheduled) return;
    isScheduled = true;
    requestAnimationFrame(() => {
      isScheduled = false;
      draw();
    });
  }

  function draw() {
    const first = Math.max(0, Math.floor(scroller.scrollTop / ROW_HEIGHT) - NUM_SPARE);
    const last = Math.min(
      order.length,
      Math.ceil((scroller.scrollTop + scroller.clientHeight) / ROW_HEIGHT) + NUM_SPARE,
    );
    /** @type {typeof drawn} */
    const next = new Map();
    for (let place = first; place < last; place += 1) {
      const index = order[place];
      const wanted = version(index);
      const old = drawn.get(index);
      const element = old?.element ?? rowElement(index);
      if (old?.version !== wanted)
        fill(element, ...cells(index).map((cell) => h('div', { role: 'cell', class: 'td' }, cell)));
      element.style.setProperty('transform', `translateY(${place * ROW_HEIGHT}px)`);
      setAttribute(element, 'aria-rowindex', place + 2);
      if (!element.isConnected) body.append(element);
      drawn.delete(index);
      next.set(index, { element, version: wanted });
    }
    for (const { element } of drawn.values()) element.remove();
    drawn = next;
    if (!drawn.has(current)) current = order[Math.ceil(scroller.scrollTop / ROW_HEIGHT)] ?? -1;
    for (const [index, { element }] of drawn) element.tabIndex = index === current ? 0 : -1;
  }

  /** @param {number} index */
  function rowElement(index) {
    return h('div', {
      role: 'row',
      class: 'tr',
      onfocus: () => {
        current = index;
        schedule();
      },
      onclick: () => onopen(index),
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key === 'Enter') {
          event.preventDefault(); // else it would also press the button that has the focus next
          onopen(index);
        }
        const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
        if (step === 0) return;
        event.preventDefault();
        const place = order.indexOf(index) + step;
        if (place < 0 || place >= order.length) return;
        const top = place * ROW_HEIGHT;
        if (top < scroller.scrollTop) scroller.scrollTop = top;
        if (top + 2 * ROW_HEIGHT > scroller.scrollTop + scroller.clientHeight)
          scroller.scrollTop = top + 2 * ROW_HEIGHT - scroller.clientHeight;
        draw();
        drawn.get(order[place])?.element.focus({ preventScroll: true });
      },
    });
  }

  return {
    element: scroller,
    /** Draws what changed, with the next frame. */
    refresh: schedule,
    /** @param {number[]} indices what is shown, first to last */
    setOrder(indices) {
      order = indices;
      body.style.setProperty('height', `${order.length * ROW_HEIGHT}px`);
      setAttribute(table, 'aria-rowcount', order.length + 1);
      schedule();
    },
    /**
     * @param {Column[]} columns
     * @param {{ key: string, isDescending: boolean }} sorted
     */
    setColumns(columns, sorted) {
      table.style.setProperty('--columns', columns.map((column) => column.width).join(' '));
      fill(
        head,
        ...columns.map((column) => {
          const isSorted = column.key === sorted.key;
          const mark = h('span', { 'aria-hidden': 'true' }, isSorted ? (sorted.isDescending ? ' ↓' : ' ↑') : '');
          const cell = h(
            'div',
            {
              role: 'columnheader',
              class: 'td',
              'aria-sort': isSorted ? (sorted.isDescending ? 'descending' : 'ascending') : null,
            },
            column.isSortable
              ? h('button', { type: 'button', class: 'plain', onclick: () => onsort(column.key) }, column.title, mark)
              : column.title,
          );
          return cell;
        }),
      );
      for (const { element } of drawn.values()) element.remove();
      drawn = new Map();
      schedule();
    },
  };
}
