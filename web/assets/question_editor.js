// Questions, built by form or written as JSON.
import { button, debounced, field, fill, h, icon, newId, segments } from './dom.js';
import { JsonError, parseJson, writeJson } from './json.js';
import { flawsOfForm, flawsOfWire, question, questionsFromWire, questionsToWire, TYPE_NAMES } from './questions.js';

/** @typedef {import('./json.js').Value} Value */
/** @typedef {import('./questions.js').Question} Question */
/** @typedef {import('./questions.js').QuestionType} QuestionType */
/** @typedef {import('./questions.js').Flaw} Flaw */

const TYPES = /** @type {[QuestionType, string][]} */ (Object.entries(TYPE_NAMES));

/**
 * A text input that tells each change.
 * @param {string} label
 * @param {string} value
 * @param {(value: string) => void} onchange
 * @param {Record<string, unknown>} [props]
 */
const input = (label, value, onchange, props = {}) =>
  h('input', {
    type: 'text',
    'aria-label': label,
    value,
    autocomplete: 'off',
    spellcheck: 'false',
    oninput: (/** @type {Event} */ event) => onchange(/** @type {HTMLInputElement} */ (event.target).value),
    ...props,
  });

/**
 * @param {{ label: string }} options
 */
export function questionEditor({ label }) {
  /** @type {Question[]} */
  let questions = [];
  /** @type {'form' | 'json'} */
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
  const tell = debounced(300, () => {
    const found = flaws();
    flawList.hidden = found.length === 0;
    fill(flawList, ...found.map((f) => h('li', {}, icon('warning'), h('strong', {}, f.field), ' ', f.message)));
  });
  area.addEventListener('input', tell);

  /**
   * The list of options or levels.
   * @param {Question} q
   * @param {() => void} redraw
   */
  function partsOf(q, redraw) {
    const isChoice = q.type === 'choice';
    const num = isChoice ? q.options.length : q.levels.length;
    /** @param {number} from @param {number} to */
    const move = (from, to) => {
      const parts = /** @type {unknown[]} */ (isChoice ? q.options : q.levels);
      parts.splice(to, 0, ...parts.splice(from, 1));
      redraw();
      tell();
    };
    const rows = Array.from({ length: num }, (_, i) => {
      const name = isChoice ? `Option ${i + 1}` : `Level ${i}`;
      return h(
        'li',
        { class: 'part' },
        h('span', { class: 'mark', 'aria-hidden': 'true' }, isChoice ? '○' : String(i)),
        isChoice
          ? h(
              'div',
              { class: 'pair' },
              input(
                name,
                q.options[i].label,
                (text) => {
                  q.options[i].label = text;
                  tell();
                },
                { placeholder: 'name', class: 'name' },
              ),
              input(
                `${name}: what it means`,
                q.options[i].description,
                (text) => {
                  q.options[i].description = text;
                  tell();
                },
                { placeholder: 'what it means (optional)' },
              ),
            )
          : input(
              name,
              q.levels[i],
              (text) => {
                q.levels[i] = text;
                tell();
              },
              { placeholder: i === 0 ? 'the lowest level' : 'the next level up' },
            ),
        button(`Move ${name} up`, () => move(i, i - 1), { icon: 'up', quiet: true, class: 'tiny', disabled: i === 0 }),
        button(
          `Remove ${name}`,
          () => {
            (isChoice ? q.options : q.levels).splice(i, 1);
            redraw();
            tell();
          },
          { icon: 'close', quiet: true, class: 'tiny' },
        ),
      );
    });
    return h(
      'div',
      { class: 'parts' },
      h('ul', {}, ...rows),
      button(
        isChoice ? 'Add an option' : 'Add a level',
        () => {
          if (isChoice) q.options.push({ label: '', description: '' });
          else q.levels.push('');
          redraw();
          tell();
          /** @type {NodeListOf<HTMLInputElement>} */ (list.querySelectorAll('.is-open .part input:first-child'))
            .item(num)
            ?.focus();
        },
        { icon: 'plus', class: 'link' },
      ),
    );
  }

  /** @param {Question} q */
  function bodyOf(q) {
    const body = h('div', { class: 'body' });
    const draw = () => {
      const id = input(
        'Name',
        q.id,
        (text) => {
          q.id = text;
          tell();
        },
        { class: 'name' },
      );
      id.removeAttribute('aria-label');
      const instructions = h('textarea', {
        rows: 2,
        value: q.instructions,
        placeholder: 'the question itself; without one the model reads the name',
        oninput: () => {
          q.instructions = instructions.value;
          tell();
        },
      });
      const types = segments('Type', TYPES, q.type, (type) => {
        q.type = type;
        while (type === 'choice' && q.options.length < 2) q.options.push({ label: '', description: '' });
        while (type === 'score' && q.levels.length < 2) q.levels.push('');
        draw();
        tell();
      });
      fill(
        body,
        h(
          'div',
          { class: 'row wrap' },
          field('Name', id),
          h('div', { class: 'field' }, h('span', { class: 'label' }, 'Answer'), types.element),
        ),
        field('Question', instructions),
        q.type === 'noul'
          ? h(
              'details',
              { open: q.yes !== '' || q.no !== '' },
              h('summary', {}, 'What yes and no mean'),
              h(
                'div',
                { class: 'pair' },
                field(
                  'Yes',
                  input(
                    'Yes',
                    q.yes,
                    (text) => {
                      q.yes = text;
                      tell();
                    },
                    { placeholder: "the model's own words" },
                  ),
                ),
                field(
                  'No',
                  input(
                    'No',
                    q.no,
                    (text) => {
                      q.no = text;
                      tell();
                    },
                    { placeholder: "the model's own words" },
                  ),
                ),
              ),
            )
          : partsOf(q, draw),
      );
    };
    draw();
    return body;
  }

  /** @param {Question} q */
  function cardOf(q) {
    const isOpen = q === open;
    const index = questions.indexOf(q);
    const summary =
      q.type === 'choice'
        ? q.options.map((o) => o.label).join(' · ')
        : q.type === 'score'
          ? q.levels.join(' < ')
          : 'yes · no';
    const toggle = h(
      'button',
      {
        type: 'button',
        class: 'summary',
        'aria-expanded': String(isOpen),
        onclick: () => {
          open = isOpen ? null : q;
          draw();
          /** @type {HTMLElement} */ (list.children[index].querySelector('.summary')).focus();
        },
      },
      h('span', { class: 'name' }, q.id || 'unnamed'),
      h('span', { class: 'kind' }, TYPE_NAMES[q.type]),
      isOpen ? null : h('span', { class: 'gist' }, q.instructions || summary),
    );
    return h(
      'li',
      { class: isOpen ? 'card question is-open' : 'card question' },
      h(
        'div',
        { class: 'row head' },
        toggle,
        button(
          `Move ${q.id || 'question'} up`,
          () => {
            questions.splice(index - 1, 0, ...questions.splice(index, 1));
            draw();
            tell();
          },
          { icon: 'up', quiet: true, class: 'tiny', disabled: index === 0 },
        ),
        button(
          `Remove ${q.id || 'question'}`,
          () => {
            questions.splice(index, 1);
            draw();
            tell();
          },
          { icon: 'close', quiet: true, class: 'tiny' },
        ),
      ),
      isOpen ? bodyOf(q) : null,
    );
  }

  function draw() {
    fill(list, ...questions.map(cardOf));
    list.hidden = mode !== 'form';
    add.hidden = mode !== 'form';
    area.hidden = mode !== 'json';
    tell();
  }

  const add = button(
    'Add a question',
    () => {
      let number = questions.length + 1;
      while (questions.some((q) => q.id === `question_${number}`)) number += 1;
      open = question({ id: `question_${number}` });
      questions.push(open);
      draw();
      tell();
      const name = /** @type {HTMLInputElement | null} */ (list.querySelector('.is-open input'));
      name?.focus();
      name?.select();
    },
    { icon: 'plus', class: 'add' },
  );

  const modes = segments(
    'How the questions are written',
    [
      ['form', 'Form'],
      ['json', 'JSON'],
    ],
    /** @type {'form' | 'json'} */ ('form'),
    (next) => {
      if (next === 'json') {
        area.value = writeJson(questionsToWire(questions), 2);
      } else {
        const found = flaws();
        const read = found.length > 0 ? found[0] : questionsFromWire(parseJson(area.value));
        if (!Array.isArray(read)) {
          flawList.hidden = false;
          fill(
            flawList,
            h('li', {}, icon('warning'), h('strong', {}, read.field), ` ${read.message}. Mend it here first.`),
          );
          return false;
        }
        questions = read;
        open = null;
      }
      mode = next;
      draw();
      return true;
    },
  );

  return {
    element: h(
      'div',
      { class: 'field' },
      h('div', { class: 'row between' }, h('span', { class: 'heading' }, label), modes.element),
      list,
      add,
      area,
      flawList,
    ),
    flaws,
    /** @returns {Value} the wire's form; only without flaws */
    value: () => (mode === 'form' ? questionsToWire(questions) : parseJson(area.value)),
    /** @param {Question[]} next */
    set(next) {
      questions = structuredClone(next);
      open = null;
      mode = 'form';
      modes.set('form');
      draw();
    },
    /**
     * Questions of a request that was made elsewhere: in the form where it can show them.
     * @param {Value} wire
     */
    setWire(wire) {
      const read = flawsOfWire(wire).length === 0 ? questionsFromWire(wire) : null;
      if (Array.isArray(read)) return this.set(read);
      mode = 'json';
      modes.set('json');
      area.value = writeJson(wire, 2);
      draw();
    },
    /** Shows what is wrong at once. */
    tell: () => tell(),
  };
}
