// How probabilities moved over the last answers: a line for each option.
import { fill, h, setAttribute } from './dom.js';
import { verdictOf } from './result.js';

/** @typedef {import('./answers.js').Answer} Answer */

const NUM_POINTS = 60;
const NS = 'http://www.w3.org/2000/svg';

export function trend() {
  /** Question to option to its last probabilities. @type {Map<string, Map<string, number[]>>} */
  let past = new Map();
  const element = h('div', { class: 'trends' });

  /** @param {number[]} values @param {boolean} isTop */
  function line(values, isTop) {
    const polyline = document.createElementNS(NS, 'polyline');
    const first = NUM_POINTS - values.length;
    setAttribute(polyline, 'points', values.map((value, i) => `${first + i},${(1 - value) * 30 + 1}`).join(' '));
    setAttribute(polyline, 'class', isTop ? 'is-top' : '');
    return polyline;
  }

  return {
    element,
    /** @param {Answer[]} answers */
    add(answers) {
      /** @type {typeof past} */
      const next = new Map();
      fill(
        element,
        ...answers.map((answer) => {
          const before = past.get(answer.id);
          const svg = document.createElementNS(NS, 'svg');
          setAttribute(svg, 'viewBox', `0 0 ${NUM_POINTS - 1} 32`);
          setAttribute(svg, 'preserveAspectRatio', 'none');
          setAttribute(svg, 'aria-hidden', 'true');
          const options = new Map(
            answer.shares.map((share) => [
              share.label,
              [...(before?.get(share.label) ?? []), share.probability.value].slice(-NUM_POINTS),
            ]),
          );
          next.set(answer.id, options);
          svg.append(...answer.shares.map((share) => line(options.get(share.label) ?? [], share.isTop)));
          return h(
            'figure',
            { class: 'trend' },
            h('figcaption', {}, answer.id, ' ', h('strong', {}, verdictOf(answer))),
            svg,
          );
        }),
      );
      past = next;
    },
    clear() {
      past = new Map();
      fill(element);
    },
  };
}
