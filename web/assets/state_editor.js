// What the questions are about: a text, or any JSON value, checked while it is typed.
import { button, debounced, fill, h, icon, newId, segments } from './dom.js';
import { JsonError, parseJson, writeJson } from './json.js';

/** @typedef {import('./json.js').Value} Value */
/** @typedef {'text' | 'json'} StateKind */

const count = (/** @type {number} */ number, /** @type {string} */ word) =>
  `${number.toLocaleString('en')} ${word}${number === 1 ? '' : 's'}`;

/**
 * @param {{ label: string, placeholder: string, rows: number }} options
 */
export function stateEditor({ label, placeholder, rows }) {
  /** @type {StateKind} */
  let kind = 'text';
  const remark = h('p', { class: 'remark', id: newId(), 'aria-live': 'polite' });
  const area = h('textarea', {
    id: newId(),
    rows,
    placeholder,
    spellcheck: 'false',
    'aria-describedby': remark.id,
    oninput: () => tellSoon(),
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

  function tell() {
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
  }
  const tellSoon = debounced(250, tell);

  const tidy = button(
    'Tidy up',
    () => {
      if (flaw() === '') area.value = writeJson(parseJson(area.value), 2);
      tell();
    },
    { class: 'link' },
  );
  /** @type {[StateKind, string][]} */
  const choices = [
    ['text', 'Text'],
    ['json', 'JSON'],
  ];
  const kinds = segments('Kind of state', choices, kind, setKind);

  /** @param {StateKind} next */
  function setKind(next) {
    kind = next;
    tidy.hidden = kind !== 'json';
    area.classList.toggle('code', kind === 'json');
    tell();
  }
  setKind(kind);

  const tools = h('div', { class: 'row' }, tidy, kinds.element);
  const head = h('div', { class: 'row between' }, h('label', { for: area.id, class: 'heading' }, label), tools);
  return {
    element: h('div', { class: 'field' }, head, area, remark),
    flaw,
    /**
     * The state as a value.
     * @returns {Value}
     * @throws {JsonError} when there is a flaw
     */
    value: () => (kind === 'text' ? area.value : parseJson(area.value)),
    /**
     * @param {StateKind} next
     * @param {string} text
     */
    set(next, text) {
      area.value = text;
      kinds.set(next);
      setKind(next);
    },
  };
}
