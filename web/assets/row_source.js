// Where the rows of a triage come from: a file, pasted text, samples, or pictures; and which columns the model reads.
import { button, debounced, fill, h, icon, newId } from './dom.js';
import { writeJson } from './json.js';
import { pictureOf } from './pictures.js';
import { cellText, readSheet, stateOf } from './rows.js';
import { SAMPLE_CSV } from './templates.js';

/** @typedef {import('./json.js').Value} Value */
/** @typedef {import('./rows.js').Sheet} Sheet */
/** @typedef {import('./questions.js').Flaw} Flaw */

const PICTURE_SIDE = 672;
const ID_COLUMN = /^(id|nr|no|#|index|uuid)$/i; // numbers of rows tell the model nothing

/**
 * @param {{ onchange: () => void }} options
 */
export function rowSource({ onchange }) {
  /** @type {Sheet | null} */
  let sheet = null;
  /** Instead of a sheet. @type {File[]} */
  let files = [];
  let name = '';
  /** @type {Set<number>} */
  let chosen = new Set();
  const columns = () => [...chosen].sort((a, b) => a - b);
  const count = () => sheet?.rows.length ?? files.length;

  const element = h('div', { class: 'data' });
  const message = h('p', { class: 'remark is-wrong', role: 'alert' });
  const example = h('pre', { class: 'example', tabindex: '0', 'aria-label': 'The first row as the model reads it' });
  const file = h('input', {
    type: 'file',
    multiple: true,
    accept: '.csv,.tsv,.txt,.jsonl,.ndjson,.json,text/csv,image/*',
    id: newId(),
    class: 'hidden',
    onchange: () => {
      void setFiles([...(file.files ?? [])]);
      file.value = '';
    },
  });
  const paste = h('textarea', {
    rows: 4,
    class: 'code',
    placeholder: 'or paste rows here: CSV with a first line that names the columns, or a JSON value a line',
    'aria-label': 'Rows as text',
    spellcheck: 'false',
    oninput: debounced(400, () => paste.value.trim() && setText('pasted rows', paste.value)),
  });

  /**
   * @param {string} source
   * @param {string} text
   */
  function setText(source, text) {
    message.textContent = '';
    try {
      const read = readSheet(text);
      sheet = read;
      files = [];
      name = source;
      chosen = new Set(
        read.columns.flatMap((column, i) => (read.columns.length > 1 && ID_COLUMN.test(column) ? [] : [i])),
      );
      onchange();
    } catch (error) {
      message.textContent = `${source}: ${error instanceof Error ? error.message : error}`;
    }
    draw();
  }

  /** @param {File[]} picked */
  async function setFiles(picked) {
    const pictures = picked.filter((one) => one.type.startsWith('image/'));
    if (pictures.length > 0) {
      message.textContent = '';
      sheet = null;
      files = pictures;
      name = `${pictures.length} pictures`;
      onchange();
      draw();
    } else if (picked[0]) {
      setText(picked[0].name, await picked[0].text());
    }
  }

  /** @param {Sheet} from */
  function columnPicker(from) {
    const checks = from.columns.map((column, i) => {
      const check = h('input', {
        type: 'checkbox',
        id: newId(),
        checked: chosen.has(i),
        onchange: () => {
          if (check.checked) chosen.add(i);
          else chosen.delete(i);
          drawExample();
        },
      });
      return h('span', { class: 'check' }, check, h('label', { for: check.id }, column));
    });
    return h(
      'fieldset',
      {},
      h('legend', { class: 'label' }, 'What the model reads of a row'),
      h('div', { class: 'row wrap' }, ...checks),
    );
  }

  function draw() {
    fill(
      element,
      h(
        'div',
        { class: 'row wrap' },
        file,
        h('label', { class: 'button', for: file.id }, icon('picture'), 'Choose a file or pictures'),
        button('Take 12 sample tickets', () => setText('sample tickets', SAMPLE_CSV), { class: 'link' }),
      ),
      paste,
      message,
      count() > 0
        ? h('p', {}, h('strong', {}, `${count().toLocaleString('en')} ${sheet ? 'rows' : 'pictures'}`), ` from ${name}`)
        : null,
      sheet && columnPicker(sheet),
      sheet && example,
    );
    drawExample();
  }

  function drawExample() {
    if (!sheet) return;
    const state = chosen.size === 0 ? '' : stateOf(sheet, 0, columns());
    example.textContent = typeof state === 'string' ? state : writeJson(state, 2);
  }

  draw();
  return {
    element,
    setFiles,
    count,
    get name() {
      return name;
    },
    get isPictures() {
      return files.length > 0;
    },
    /** @returns {Flaw[]} what is missing before the rows can be sent */
    flaws() {
      if (count() === 0) return [{ field: 'rows', message: 'choose a file, paste rows, or take the samples' }];
      if (sheet && chosen.size === 0)
        return [{ field: 'columns', message: 'choose one at least for the model to read' }];
      return [];
    },
    /** The names of a row's cells. */
    columns: () => sheet?.columns ?? ['file'],
    /** @param {number} index @returns {Value[]} */
    cells: (index) => sheet?.rows[index] ?? [files[index].name],
    /** @param {number} index @returns {File | null} */
    picture: (index) => files[index] ?? null,
    /** @param {number} index what is read of it, on one line */
    preview: (index) => {
      const row = sheet?.rows[index];
      return row
        ? columns()
            .map((column) => cellText(row[column]))
            .join(' · ')
        : files[index].name;
    },
    /**
     * A row as members of its request.
     * @param {number} index
     * @returns {Promise<[string, Value][]>}
     */
    async members(index) {
      if (sheet) return [['state', stateOf(sheet, index, columns())]];
      const { url } = await pictureOf(files[index], PICTURE_SIDE);
      return [
        ['state', ''],
        ['images', [url]],
      ];
    },
  };
}
