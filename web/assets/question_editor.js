// Questions, built by form or written as JSON.
import { button, debounced, fill, h, icon, newId, segments } from './dom.js';
import { JsonError, parseJson, writeJson } from './json.js';
import { questionForm } from './question_form.js';
import { flawsOfForm, flawsOfWire, question, questionsFromWire, questionsToWire, TYPE_NAMES } from './questions.js';

/** @typedef {import('./json.js').Value} Value */
/** @typedef {import('./questions.js').Question} Question */
/** @typedef {import('./questions.js').Flaw} Flaw */
/** @typedef {'form' | 'json'} Mode */

/** @type {[Mode, string][]} */
const MODES = [
  ['form', 'Form'],
  ['json', 'JSON'],
];

/** What a question offers, on one line. @param {Question} q */
function gistOf(q) {
  if (q.instructions !== '') return q.instructions;
  if (q.type === 'choice') return q.options.map((option) => option.label).join(' · ');
  return q.type === 'score' ? q.levels.join(' < ') : 'yes · no';
}

/**
 * @param {{ label: string }} options
 */
export function questionEditor({ label }) {
  /** @type {Question[]} */
  let questions = [];
  /** @type {Mode} */
  let mode = 'form';
  /** The card that is open; the others show one line. @type {Question | null} */
  let open = null;

  const list = h('ol', { class: 'questions' });
  const area = h('textarea', {
    id: newId(),
    rows: 16,
    spellcheck: 'false',
    class: 'code',
    'aria-label': 'Questions as JSON',
    oninput: () => tell(),
  });
  const flawList = h('ul', { class: 'flaws', 'aria-live': 'polite', hidden: true });

  /** @returns {Flaw[]} */
  function flaws() {
    if (mode === 'form') return flawsOfForm(questions);
    try {
      return flawsOfWire(parseJson(area.value));
    } catch (error) {
      return [{ field: 'questions', message: error instanceof JsonError ? `JSON: ${error.message}` : String(error) }];
    }
  }
  /** @param {Flaw[]} found */
  function show(found) {
    flawList.hidden = found.length === 0;
    fill(flawList, ...found.map((f) => h('li', {}, icon('warning'), h('strong', {}, f.field), ' ', f.message)));
  }
  const tell = debounced(300, () => show(flaws()));

  /**
   * Draws all cards anew, and gives the focus back to where the eye is.
   * @param {number} index of a card
   * @param {string} selector
   */
  function redraw(index, selector) {
    draw();
    const place = /** @type {HTMLElement | null} */ (list.children[index]?.querySelector(selector)) ?? add;
    place.focus();
  }

  /**
   * @param {Question} q
   * @param {number} index
   */
  function cardOf(q, index) {
    const isOpen = q === open;
    const name = q.id || 'question';
    const toggle = () => {
      open = isOpen ? null : q;
      redraw(index, '.summary');
    };
    const moveUp = () => {
      questions.splice(index - 1, 0, ...questions.splice(index, 1));
      redraw(index - 1, index === 1 ? '.summary' : '.tiny');
    };
    const remove = () => {
      questions.splice(index, 1);
      redraw(Math.min(index, questions.length - 1), '.summary');
    };
    const summary = h(
      'button',
      { type: 'button', class: 'summary', 'aria-expanded': String(isOpen), onclick: toggle },
      h('span', { class: 'name' }, q.id || 'unnamed'),
      h('span', { class: 'kind' }, TYPE_NAMES[q.type]),
      isOpen ? null : h('span', { class: 'gist' }, gistOf(q)),
    );
    const head = h(
      'div',
      { class: 'row head' },
      summary,
      button(`Move ${name} up`, moveUp, { icon: 'up', quiet: true, class: 'tiny', disabled: index === 0 }),
      button(`Remove ${name}`, remove, { icon: 'close', quiet: true, class: 'tiny' }),
    );
    const className = isOpen ? 'card question is-open' : 'card question';
    return h('li', { class: className }, head, isOpen ? questionForm(q, tell) : null);
  }

  function draw() {
    fill(list, ...questions.map(cardOf));
    list.hidden = mode !== 'form';
    add.hidden = mode !== 'form';
    area.hidden = mode !== 'json';
    tell();
  }

  function addQuestion() {
    let number = questions.length + 1;
    while (questions.some((q) => q.id === `question_${number}`)) number += 1;
    open = question({ id: `question_${number}` });
    questions.push(open);
    redraw(questions.length - 1, '.body input');
    if (document.activeElement instanceof HTMLInputElement) document.activeElement.select();
  }
  const add = button('Add a question', addQuestion, { icon: 'plus', class: 'add' });

  /** @param {Mode} next */
  function setMode(next) {
    mode = next;
    modes.set(next);
    draw();
  }

  /** Into the form only with what it can show. @returns {boolean} whether it could */
  function enterForm() {
    const found = flaws();
    const read = found.length > 0 ? found[0] : questionsFromWire(parseJson(area.value));
    if (!Array.isArray(read)) {
      show([{ field: read.field, message: `${read.message}. Mend it here first.` }]);
      return false;
    }
    questions = read;
    open = null;
    setMode('form');
    return true;
  }

  const modes = segments('How the questions are written', MODES, /** @type {Mode} */ (mode), (next) => {
    if (next === 'form') return enterForm();
    area.value = writeJson(questionsToWire(questions), 2);
    setMode('json');
    return true;
  });

  const head = h('div', { class: 'row between' }, h('span', { class: 'heading' }, label), modes.element);
  return {
    element: h('div', { class: 'field' }, head, list, add, area, flawList),
    flaws,
    /** @returns {Value} the wire's form; only without flaws */
    value: () => (mode === 'form' ? questionsToWire(questions) : parseJson(area.value)),
    /** @param {Question[]} next */
    set(next) {
      questions = structuredClone(next);
      open = null;
      setMode('form');
    },
    /**
     * Questions of a request that was made elsewhere: in the form where it can show them.
     * @param {Value} wire
     */
    setWire(wire) {
      const read = flawsOfWire(wire).length === 0 ? questionsFromWire(wire) : null;
      if (Array.isArray(read)) return this.set(read);
      area.value = writeJson(wire, 2);
      setMode('json');
    },
    /** Shows what is wrong. */
    tell,
  };
}
