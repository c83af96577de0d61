// One option of one question, its probabilities over all rows, and a threshold between them.
import { topShare } from './answers.js';
import { field, fill, h, newId, segments, setAttribute } from './dom.js';
import { asText, at } from './json.js';

/** @typedef {import('./json.js').Value} Value */
/** @typedef {import('./answers.js').Answer} Answer */
/** @typedef {{ status: 'waiting' | 'done' | 'error', answers: Answer[] }} Row */
/** @typedef {'all' | 'above' | 'below' | 'error' | 'waiting'} Part */

/** @type {[Part, string][]} */
const PARTS = [
  ['all', 'All'],
  ['above', 'At or above'],
  ['below', 'Below'],
  ['error', 'Errors'],
  ['waiting', 'Waiting'],
];
const NUM_BINS = 40;
const NS = 'http://www.w3.org/2000/svg';
const LIKELIEST = ''; // the option that each row's answer has as its likeliest

/** @param {Value} question of the wire @returns {[string, string][]} label and what it says */
function optionsOf(question) {
  const criteria = at(question, 'criteria');
  if (asText(at(question, 'type')) === 'noul')
    return [
      ['true', 'yes'],
      ['false', 'no'],
    ];
  if (criteria instanceof Map) return [...criteria.keys()].map((label) => [label, label]);
  return Array.isArray(criteria) ? criteria.map((level, i) => [String(i), `${i} ${asText(level) ?? ''}`]) : [];
}

/**
 * @param {object} options
 * @param {() => void} options.onchange other rows may be shown
 * @param {() => void} options.onpick another option is looked at
 */
export function thresholdPanel({ onchange, onpick }) {
  /** @type {Map<string, Value>} */
  let questions = new Map();
  /** @type {Part} */
  let part = 'all';
  const question = h('select', {
    onchange: () => {
      drawOptions();
      onpick();
    },
  });
  const option = h('select', { onchange: onpick });
  const slider = h('input', {
    type: 'range',
    id: newId(),
    min: '0',
    max: '1',
    step: '0.01',
    value: '0.5',
    'aria-label': 'Threshold',
    oninput: onchange,
  });
  const sliderText = h('output', { class: 'number', for: slider.id });
  const bins = document.createElementNS(NS, 'svg');
  setAttribute(bins, 'viewBox', `0 0 ${NUM_BINS} 20`);
  setAttribute(bins, 'preserveAspectRatio', 'none');
  setAttribute(bins, 'class', 'histogram');
  setAttribute(bins, 'aria-hidden', 'true');
  const parts = segments('Rows to show', PARTS, part, (next) => {
    part = next;
    onchange();
  });
  const shown = h('p', { class: 'remark', role: 'status' });

  function drawOptions() {
    const options = optionsOf(questions.get(question.value) ?? null);
    fill(
      option,
      h('option', { value: LIKELIEST }, 'its likeliest option'),
      ...options.map(([label, text]) => h('option', { value: label }, text)),
    );
  }

  /** @param {Answer} answer */
  const shareOf = (answer) =>
    (answer.id === question.value && option.value !== LIKELIEST
      ? answer.shares.find((share) => share.label === option.value)
      : null) ?? topShare(answer);
  /** @param {Row} row */
  const valueOfRow = (row) => {
    const answer = row.answers.find((one) => one.id === question.value);
    return answer ? (shareOf(answer)?.probability.value ?? null) : null;
  };

  /** @param {Row} row @param {Part} which */
  function isIn(row, which) {
    if (which === 'all') return true;
    if (which === 'error' || which === 'waiting') return row.status === which;
    const value = valueOfRow(row);
    return value !== null && (which === 'above' ? value >= Number(slider.value) : value < Number(slider.value));
  }

  /**
   * @param {number[]} bars
   * @param {number} limit
   */
  function drawBins(bars, limit) {
    const most = Math.max(1, ...bars);
    const rects = bars.map((count, i) => {
      const rect = document.createElementNS(NS, 'rect');
      const height = count === 0 ? 0 : Math.max(0.8, (count / most) * 20);
      const box = { x: i + 0.1, y: 20 - height, width: 0.8, height };
      for (const [name, value] of Object.entries(box)) setAttribute(rect, name, value);
      setAttribute(rect, 'class', (i + 0.5) / NUM_BINS >= limit ? 'is-above' : '');
      return rect;
    });
    bins.replaceChildren(...rects);
  }

  return {
    element: h(
      'div',
      { class: 'threshold card' },
      h(
        'div',
        { class: 'row wrap picks' },
        field('Question', question),
        field('Probability of', option),
        h(
          'div',
          { class: 'field grow' },
          h('div', { class: 'row between' }, h('label', { class: 'label', for: slider.id }, 'Threshold'), sliderText),
          h('div', { class: 'slider' }, bins, slider),
        ),
      ),
      h('div', { class: 'row between wrap' }, parts.element, shown),
    ),
    /** @param {Value} asked */
    setQuestions(asked) {
      questions = asked instanceof Map ? asked : new Map();
      const before = question.value;
      fill(question, ...[...questions.keys()].map((id) => h('option', { value: id, selected: id === before }, id)));
      drawOptions();
    },
    question: () => question.value,
    /**
     * A question's name, with the option that is looked at.
     * @param {string} id
     */
    titleOf: (id) =>
      id === question.value && option.value !== LIKELIEST ? `${id}: ${option.selectedOptions[0].text}` : id,
    shareOf,
    /** @param {Answer} answer */
    valueOf: (answer) => shareOf(answer)?.probability.value ?? -1,
    /** The rows to show, by their place. @param {Row[]} rows */
    filter: (rows) => rows.flatMap((row, index) => (isIn(row, part) ? [index] : [])),
    /**
     * @param {Row[]} rows
     * @param {number} numShown
     */
    draw(rows, numShown) {
      const limit = Number(slider.value);
      const counts = { all: rows.length, above: 0, below: 0, error: 0, waiting: 0 };
      const bars = new Array(NUM_BINS).fill(0);
      for (const row of rows) {
        if (row.status !== 'done') {
          counts[row.status] += 1;
          continue;
        }
        const value = valueOfRow(row);
        if (value === null) continue;
        counts[value >= limit ? 'above' : 'below'] += 1;
        bars[Math.min(NUM_BINS - 1, Math.floor(value * NUM_BINS))] += 1;
      }
      drawBins(bars, limit);
      sliderText.textContent = limit.toFixed(2);
      PARTS.forEach(([key, name], i) => {
        parts.element.children[i].textContent = `${name} ${counts[key].toLocaleString('en')}`;
      });
      shown.textContent = `${numShown.toLocaleString('en')} shown`;
    },
  };
}
