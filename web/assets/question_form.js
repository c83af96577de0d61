// One question as a form. It writes into the question as one types, and tells that it did.
import { button, field, fill, h, segments } from './dom.js';
import { TYPE_NAMES } from './questions.js';

/** @typedef {import('./questions.js').Question} Question */
/** @typedef {import('./questions.js').QuestionType} QuestionType */

const TYPES = /** @type {[QuestionType, string][]} */ (Object.entries(TYPE_NAMES));

/**
 * @param {Question} q
 * @param {() => void} onchange
 */
export function questionForm(q, onchange) {
  const element = h('div', { class: 'body' });

  /**
   * A text input that writes into one member of a part of the question.
   * @template {string | number} Key
   * @param {Record<Key, string>} part
   * @param {Key} key
   * @param {Record<string, unknown>} props
   */
  function input(part, key, props) {
    const control = h('input', {
      type: 'text',
      autocomplete: 'off',
      spellcheck: 'false',
      value: part[key],
      oninput: () => {
        part[key] = control.value;
        onchange();
      },
      ...props,
    });
    return control;
  }

  /** Draws all anew, and gives the focus back to where the eye is. @param {string} selector */
  function redraw(selector) {
    draw();
    onchange();
    /** @type {HTMLElement | null} */ (element.querySelector(selector))?.focus();
  }

  /** @param {number} i */
  const optionInputs = (i) =>
    h(
      'div',
      { class: 'pair' },
      input(q.options[i], 'label', { placeholder: 'name', class: 'name', 'aria-label': `Option ${i + 1}` }),
      input(q.options[i], 'description', {
        placeholder: 'what it means (optional)',
        'aria-label': `Option ${i + 1}: what it means`,
      }),
    );

  /** @param {number} i */
  const levelInput = (i) =>
    input(/** @type {Record<number, string>} */ (/** @type {unknown} */ (q.levels)), i, {
      placeholder: i === 0 ? 'the lowest level' : 'the next level up',
      'aria-label': `Level ${i}`,
    });

  /** The options of a choice, or the levels of a score. */
  function partList() {
    const isChoice = q.type === 'choice';
    const parts = /** @type {unknown[]} */ (isChoice ? q.options : q.levels);
    const nth = (/** @type {number} */ i, /** @type {string} */ what) => `.part:nth-child(${i + 1}) ${what}`;
    const rows = parts.map((_, i) => {
      const name = isChoice ? `Option ${i + 1}` : `Level ${i}`;
      const moveUp = () => {
        parts.splice(i - 1, 0, ...parts.splice(i, 1));
        redraw(nth(i - 1, i === 1 ? 'input' : 'button'));
      };
      const remove = () => {
        parts.splice(i, 1);
        redraw(parts.length === 0 ? '.parts > button' : nth(Math.min(i, parts.length - 1), 'input'));
      };
      return h(
        'li',
        { class: 'part' },
        h('span', { class: 'mark', 'aria-hidden': 'true' }, isChoice ? '○' : String(i)),
        isChoice ? optionInputs(i) : levelInput(i),
        button(`Move ${name} up`, moveUp, { icon: 'up', quiet: true, class: 'tiny', disabled: i === 0 }),
        button(`Remove ${name}`, remove, { icon: 'close', quiet: true, class: 'tiny' }),
      );
    });
    const add = () => {
      parts.push(isChoice ? { label: '', description: '' } : '');
      redraw(nth(parts.length - 1, 'input'));
    };
    return h(
      'div',
      { class: 'parts' },
      h('ul', {}, ...rows),
      button(isChoice ? 'Add an option' : 'Add a level', add, { icon: 'plus', class: 'link' }),
    );
  }

  function sides() {
    const ownWords = { placeholder: "the model's own words" };
    return h(
      'details',
      { open: q.yes !== '' || q.no !== '' },
      h('summary', {}, 'What yes and no mean'),
      h('div', { class: 'pair' }, field('Yes', input(q, 'yes', ownWords)), field('No', input(q, 'no', ownWords))),
    );
  }

  function draw() {
    const instructions = h('textarea', {
      rows: 2,
      value: q.instructions,
      placeholder: 'the question itself; without one the model reads the name',
      oninput: () => {
        q.instructions = instructions.value;
        onchange();
      },
    });
    const types = segments('Type', TYPES, q.type, (type) => {
      q.type = type;
      while (type === 'choice' && q.options.length < 2) q.options.push({ label: '', description: '' });
      while (type === 'score' && q.levels.length < 2) q.levels.push('');
      redraw('[aria-pressed=true]');
    });
    const answer = h('div', { class: 'field' }, h('span', { class: 'label' }, 'Answer'), types.element);
    fill(
      element,
      h('div', { class: 'row wrap' }, field('Name', input(q, 'id', { class: 'name' })), answer),
      field('Question', instructions),
      q.type === 'noul' ? sides() : partList(),
    );
  }
  draw();
  return element;
}
