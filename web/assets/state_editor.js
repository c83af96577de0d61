// What the questions are about: a text, or any JSON value, checked while it is typed.
import { debounced, fill, h, icon, newId, segments } from './dom.js';
import { JsonError, parseJson, writeJson } from './json.js';

/** @typedef {import('./json.js').Value} Value */
/** @typedef {'text' | 'json'} StateKind */

const count = (/** @type {number} */ number, /** @type {string} */ word) =>
  `${number.toLocaleString('en')} ${word}${number === 1 ? '' : 's'}`;

/**
 * @param {object} options
 * @param {string} options.label
 * @param {string} [options.placeholder]
 * @param {number} [options.rows]
 * @param {() => void} options.onchange
 */
export function stateEditor({ label, placeholder = '', rows = 9, onchange }) {
  /** @type {StateKind} */
  let kind = 'text';
  const remark = h('p', { class: 'remark', id: newId(), 'aria-live': 'polite' });
  const area = h('textarea', {
    id: newId(),
    rows,
    placeholder,
    spellcheck: 'false',
    'aria-describedby': remark.id,
    oninput: () => {
      check();
      onchange();
    },
  });

  /** @returns {string} '' when there is nothing wrong */
  function flaw() {
    if (kind === 'text') return '';
    if (area.value.trim() === '') return 'JSON: expected a value';
    try {
      parseJson(area.value);
      return '';
    } catch (error) {
      return error instanceof JsonError ? `JSON: ${error.message}` : String(error);
    }
  }

  const tell = debounced(250, () => {
    const wrong = flaw();
    area.setAttribute('aria-invalid', String(wrong !== ''));
    remark.classList.toggle('is-wrong', wrong !== '');
    if (wrong) return fill(remark, icon('warning'), wrong);
    const characters = count([...area.value].length, 'character');
    fill(
      remark,
      kind === 'text'
        ? `${characters} of text`
        : `${characters} of JSON. The model reads it compact, with sorted keys.`,
    );
  });
  const check = () => tell();

  const tidy = h(
    'button',
    {
      type: 'button',
      class: 'link',
      hidden: true,
      onclick: () => {
        if (flaw()) return;
        area.value = writeJson(parseJson(area.value), 2);
        onchange();
      },
    },
    'Tidy up',
  );
  const kinds = segments(
    'Kind of state',
    [
      ['text', 'Text'],
      ['json', 'JSON'],
    ],
    /** @type {StateKind} */ (kind),
    (next) => {
      kind = next;
      tidy.hidden = kind !== 'json';
      check();
      onchange();
    },
  );
  check();

  return {
    element: h(
      'div',
      { class: 'field' },
      h(
        'div',
        { class: 'row between' },
        h('label', { for: area.id, class: 'heading' }, label),
        h('div', { class: 'row' }, tidy, kinds.element),
      ),
      area,
      remark,
    ),
    flaw,
    get kind() {
      return kind;
    },
    get text() {
      return area.value;
    },
    /**
     * The state as a value.
     * @returns {Value}
     * @throws {JsonError} when there is a flaw
     */
    value: () => (kind === 'text' ? area.value : parseJson(area.value)),
    /**
     * @param {StateKind} nextKind
     * @param {string} text
     */
    set(nextKind, text) {
      kind = nextKind;
      kinds.set(kind);
      tidy.hidden = kind !== 'json';
      area.value = text;
      check();
    },
    focus: () => area.focus(),
  };
}
