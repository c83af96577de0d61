// Triage: the same questions about many rows or pictures.
import { requestText } from './ask_view.js';
import { answersOf } from './answers.js';
import { BatchRun } from './batch_run.js';
import { announce, button, debounced, field, fill, h, icon, newId, saveFile } from './dom.js';
import { asText, at, Num, writeJson } from './json.js';
import { notice } from './notice.js';
import { pictureOf } from './pictures.js';
import { Problem } from './problem.js';
import { questionEditor } from './question_editor.js';
import { answerCard, saidLegend } from './result.js';
import { rowTable } from './row_table.js';
import { cellText, readSheet, stateOf, writeCsv } from './rows.js';
import { SAMPLE_CSV, TRIAGE_QUESTIONS } from './templates.js';
import { thresholdPanel } from './threshold.js';

/** @typedef {import('./json.js').Value} Value */
/** @typedef {import('./rows.js').Sheet} Sheet */
/** @typedef {import('./answers.js').Answer} Answer */

/**
 * @typedef {object} Row
 * @property {'waiting' | 'done' | 'error'} status
 * @property {Value | null} line as the engine answered
 * @property {Answer[]} answers
 * @property {string} message of an error
 * @property {number} version
 */

const PICTURE_SIDE = 672;
const PREVIEW_CHARACTERS = 200;
const NO_ANSWERS = /** @type {Answer[]} */ ([]);

/**
 * @param {{ model: () => string }} engine
 */
export function triageView({ model }) {
  /** @type {Sheet | null} */
  let sheet = null;
  /** Instead of a sheet. @type {File[]} */
  let files = [];
  let sourceName = '';
  /** @type {Set<number>} */
  let columns = new Set();
  /** @type {Row[]} */
  let rows = [];
  /** As they were when the run began. @type {Value} */
  let asked = null;
  let questionIds = /** @type {string[]} */ ([]);
  let sorted = { key: '#', isDescending: false };
  let numDone = 0;
  let numErrors = 0;

  const questions = questionEditor({ label: 'Questions', onchange: () => undefined });
  questions.set(TRIAGE_QUESTIONS);
  const dataPanel = h('div', { class: 'data' });
  const message = h('p', { class: 'remark is-wrong', role: 'alert' });
  const setup = h('details', { class: 'setup', open: true });
  const bar = h('div', { class: 'progress', role: 'progressbar', 'aria-label': 'Answered rows', 'aria-valuemin': '0', 'aria-valuemax': '100' }, h('span', { class: 'fill is-top' }));
  const tally = h('p', { class: 'tally' });
  const problem = h('div');
  const results = h('section', { class: 'results', 'aria-label': 'Rows', hidden: true });
  const startButton = button('Start', () => void start(), { class: 'primary' });
  const pauseButton = button('Pause', () => (run.phase === 'running' ? run.pause() : void run.resume()), { hidden: true });
  const stopButton = button('Stop', () => run.stop(), { icon: 'stop', hidden: true });
  const retryButton = button('Try the errors again', () => retry(), { hidden: true });

  const threshold = thresholdPanel({ onchange: () => arrange(), onpick: () => {
    arrange();
    table.redraw();
  } });
  const search = h('input', { type: 'search', placeholder: 'Find in the rows', 'aria-label': 'Find in the rows', oninput: debounced(150, () => arrange()) });
  const table = rowTable({ label: 'Rows and their answers', cells: cellsOf, version: (index) => rows[index].version, onopen: openRow, onsort: (key) => {
    sorted = { key, isDescending: sorted.key === key ? !sorted.isDescending : key !== '#' };
    drawColumns();
    arrange();
  } });

  const run = new BatchRun({ requestOf, onanswer, onunsendable: (index, error) => settle(index, { status: 'error', message: String(error instanceof Error ? error.message : error) }), onchange: drawPhase });

  const numRows = () => sheet?.rows.length ?? files.length;

  /** @param {number} index */
  async function requestOf(index) {
    if (sheet) return requestText([['state', stateOf(sheet, index, [...columns].sort((a, b) => a - b))], ['questions', asked]], model());
    const picture = await pictureOf(files[index], PICTURE_SIDE);
    return requestText([['state', ''], ['images', [picture.url]], ['questions', asked]], model());
  }

  /** @param {number} index @param {Value} line */
  function onanswer(index, line) {
    const error = at(line, 'error');
    if (error === undefined) {
      settle(index, { status: 'done', line, answers: answersOf(line) });
      return true;
    }
    const status = at(error, 'status');
    if (status instanceof Num && status.value === 503) return false;
    settle(index, { status: 'error', line, message: asText(at(error, 'message')) ?? writeJson(error) });
    return true;
  }

  /** @param {number} index @param {Partial<Row>} changes */
  function settle(index, changes) {
    const row = rows[index];
    if (row.status === 'done') numDone -= 1;
    if (row.status === 'error') numErrors -= 1;
    Object.assign(row, changes);
    row.version += 1;
    if (row.status === 'done') numDone += 1;
    if (row.status === 'error') numErrors += 1;
    table.refresh();
    tick();
  }

  // Figures follow at once, once a frame; order and counts a few times a second.
  let isTicking = false;
  function tick() {
    if (isTicking) return;
    isTicking = true;
    requestAnimationFrame(() => {
      isTicking = false;
      drawTally();
    });
    arrangeSoon();
  }
  let arrangedAt = 0;
  const arrangeSoon = (() => {
    let isWaiting = false;
    return () => {
      if (isWaiting) return;
      isWaiting = true;
      setTimeout(() => {
        isWaiting = false;
        arrange();
      }, Math.max(0, arrangedAt + 300 - performance.now()));
    };
  })();

  /** @param {number} index @param {string} key of a question */
  const answerTo = (index, key) => rows[index].answers.find((answer) => answer.id === key);

  /** Which rows are shown, and in which order. */
  function arrange() {
    arrangedAt = performance.now();
    const wanted = search.value.trim().toLowerCase();
    const shown = threshold.filter(rows);
    const found = wanted === '' ? shown : shown.filter((index) => previewOf(index).toLowerCase().includes(wanted));
    if (sorted.key !== '#') {
      const value = (/** @type {number} */ index) => {
        const answer = answerTo(index, sorted.key);
        return answer ? threshold.valueOf(answer) : -1;
      };
      const values = new Map(found.map((index) => [index, value(index)]));
      const sign = sorted.isDescending ? -1 : 1;
      found.sort((a, b) => sign * ((values.get(a) ?? 0) - (values.get(b) ?? 0)) || a - b);
    } else if (sorted.isDescending) {
      found.reverse();
    }
    table.setOrder(found);
    threshold.draw(rows, found.length);
  }

  /** @param {number} index */
  function previewOf(index) {
    if (!sheet) return files[index].name;
    const row = sheet.rows[index];
    return [...columns].map((column) => cellText(row[column])).join(' · ');
  }

  /** @param {number} index @returns {(Node | string)[]} */
  function cellsOf(index) {
    const row = rows[index];
    const preview = h('span', { class: 'preview' }, previewOf(index).slice(0, PREVIEW_CHARACTERS));
    const first = [h('span', { class: 'number' }, String(index + 1)), preview];
    if (row.status === 'error') return [...first, h('span', { class: 'row-error' }, icon('warning'), row.message)];
    if (row.status === 'waiting') return [...first, ...questionIds.map(() => h('span', { class: 'pending', 'aria-label': 'waits' }, '·'))];
    return [...first, ...questionIds.map((id) => {
      const answer = answerTo(index, id);
      const share = answer && threshold.shareOf(answer);
      if (!answer || !share) return '';
      const fillBar = h('span', { class: 'fill' });
      fillBar.style.setProperty('--share', String(share.probability.value));
      return h('span', { class: threshold.question() === id ? 'cell-answer is-focus' : 'cell-answer' }, h('span', { class: `value${answer.isVerdictDerived ? ' is-derived' : ''}` }, answer.verdict),
        h('span', { class: `number${share.probability.isDerived ? ' is-derived' : ''}` }, share.probability.text), h('span', { class: 'track', 'aria-hidden': 'true' }, fillBar));
    })];
  }

  function drawColumns() {
    table.setColumns([
      { key: '#', title: '#', width: '4.2rem', isSortable: true },
      { key: 'row', title: sheet ? 'Row' : 'Picture', width: 'minmax(15rem, 2fr)', isSortable: false },
      ...questionIds.map((id) => ({ key: id, title: id, width: 'minmax(11rem, 1fr)', isSortable: true })),
    ], sorted);
  }

  function drawTally() {
    const all = rows.length;
    const done = numDone + numErrors;
    const share = all === 0 ? 0 : done / all;
    /** @type {HTMLElement} */ (bar.firstChild).style.setProperty('--share', String(share));
    bar.setAttribute('aria-valuenow', String(Math.round(share * 100)));
    const rate = run.phase === 'running' ? run.rate() : 0;
    const left = rate > 0 ? Math.ceil((all - done) / rate) : 0;
    bar.hidden = all === 0;
    if (all === 0) return fill(tally, numRows() === 0 ? 'No rows yet' : `${numRows().toLocaleString('en')} rows to ask about`);
    fill(tally,
      h('strong', {}, done.toLocaleString('en')), ` of ${all.toLocaleString('en')} rows`,
      numErrors > 0 ? h('span', { class: 'is-wrong' }, ` · ${numErrors.toLocaleString('en')} with errors`) : null,
      rate > 0 ? h('span', {}, ' · ', h('span', { class: 'is-derived' }, `${rate < 10 ? rate.toFixed(1) : Math.round(rate)} a second`), left > 0 ? `, ${left < 90 ? `${left} s` : `${Math.ceil(left / 60)} min`} left` : '') : null);
  }

  function drawPhase() {
    const { phase } = run;
    startButton.hidden = phase === 'running' || phase === 'paused';
    fill(startButton, rows.length > 0 ? 'Start anew' : 'Start');
    pauseButton.hidden = phase !== 'running' && phase !== 'paused';
    fill(pauseButton, icon(phase === 'running' ? 'pause' : 'play'), phase === 'running' ? 'Pause' : 'Go on');
    stopButton.hidden = pauseButton.hidden;
    retryButton.hidden = phase === 'running' || numErrors === 0;
    fill(problem, run.problem ? notice(run.problem) : null);
    if (phase === 'done') announce(`${numDone} rows answered, ${numErrors} with errors`);
    drawTally();
    if (phase !== 'running') arrange();
  }

  function start() {
    message.textContent = '';
    const flaws = questions.flaws();
    if (numRows() === 0) flaws.unshift({ field: 'rows', message: 'choose a file, paste rows, or take the samples' });
    if (sheet && columns.size === 0) flaws.unshift({ field: 'columns', message: 'choose one at least for the model to read' });
    if (flaws.length > 0) {
      questions.tell();
      fill(problem, notice(new Problem('This cannot be asked yet', { flaws, status: 422 })));
      return;
    }
    asked = questions.value();
    questionIds = asked instanceof Map ? [...asked.keys()] : [];
    rows = Array.from({ length: numRows() }, () => ({ status: 'waiting', line: null, answers: NO_ANSWERS, message: '', version: 0 }));
    numDone = 0;
    numErrors = 0;
    sorted = { key: '#', isDescending: false };
    threshold.setQuestions(asked);
    results.hidden = false;
    setup.open = false;
    drawColumns();
    arrange();
    run.start(rows.map((_, index) => index));
  }

  function retry() {
    const failed = rows.flatMap((row, index) => (row.status === 'error' ? [index] : []));
    for (const index of failed) settle(index, { status: 'waiting', message: '', line: null });
    run.start(failed);
  }

  /** @param {number} index */
  function openRow(index) {
    const row = rows[index];
    const title = h('h2', { id: newId() }, `Row ${index + 1}`);
    const content = sheet
      ? h('dl', { class: 'row-cells' }, ...sheet.columns.flatMap((name, i) => [h('dt', {}, name), h('dd', {}, cellText(sheet?.rows[index][i] ?? null))]))
      : pictureElement(files[index]);
    const dialog = h('dialog', { class: 'wide', 'aria-labelledby': title.id, onclose: () => dialog.remove() },
      h('header', {}, title, button('Close', () => dialog.close(), { icon: 'close', quiet: true, class: 'plain' })),
      h('div', { class: 'body' }, content,
        row.status === 'error' ? notice(new Problem('The engine refused this row', { said: row.message })) : null,
        row.status === 'waiting' ? h('p', { class: 'remark' }, 'Not answered yet.') : null,
        h('div', { class: 'answers' }, ...row.answers.map((answer) => answerCard(answer))),
        row.status === 'done' ? saidLegend() : null,
        row.line ? h('details', {}, h('summary', {}, 'The answer as it came'), h('pre', { tabindex: '0' }, writeJson(row.line, 2))) : null));
    document.body.append(dialog);
    dialog.showModal();
  }

  /** @param {File} file */
  function pictureElement(file) {
    const image = h('img', { alt: file.name, class: 'row-picture' });
    image.src = URL.createObjectURL(file);
    image.addEventListener('load', () => URL.revokeObjectURL(image.src));
    return image;
  }

  /** The rows that are shown, or all of them. @param {'csv' | 'jsonl'} format */
  function exportRows(format) {
    const indices = threshold.filter(rows);
    const name = `${sourceName.replace(/\.[a-z]+$/i, '') || 'rows'}-answers.${format}`;
    const rowColumns = sheet?.columns ?? ['file'];
    const rowCells = (/** @type {number} */ index) => (sheet ? sheet.rows[index] : [files[index].name]);
    if (format === 'jsonl') {
      const lines = indices.map((index) => {
        const { line, message } = rows[index];
        return writeJson(new Map(/** @type {[string, Value][]} */ ([
          ['row', new Map(rowColumns.map((column, i) => [column, rowCells(index)[i]]))],
          ['answers', at(line ?? null, 'answers') ?? null],
          ['error', message || null],
        ])));
      });
      saveFile(name, new Blob([lines.map((line) => line + '\n').join('')], { type: 'application/x-ndjson' }));
    } else {
      const labels = questionIds.map((id) => {
        const shares = rows.map((row) => row.answers.find((answer) => answer.id === id)).find((answer) => answer)?.shares ?? [];
        return shares.filter((share) => !share.probability.isDerived).map((share) => share.label);
      });
      const head = [...rowColumns, ...questionIds.flatMap((id, q) => [id, ...labels[q].map((label) => `${id}: ${label}`)]), 'error'];
      const records = indices.map((index) => [
        ...rowCells(index).map(cellText),
        ...questionIds.flatMap((id, q) => {
          const answer = answerTo(index, id);
          return [answer?.verdict ?? '', ...labels[q].map((label) => answer?.shares.find((share) => share.label === label)?.probability.text ?? '')];
        }),
        rows[index].message,
      ]);
      saveFile(name, new Blob(['\ufeff', writeCsv([head, ...records])], { type: 'text/csv' }));
    }
    announce(`${indices.length} rows saved`);
  }

  /** @param {string} name @param {string} text */
  function setText(name, text) {
    message.textContent = '';
    try {
      sheet = readSheet(text);
      files = [];
      sourceName = name;
      // Numbers of rows and the like tell the model nothing.
      const isId = (/** @type {string} */ column) => /^(id|nr|no|#|index|uuid)$/i.test(column);
      columns = new Set(sheet.columns.flatMap((column, i) => (isId(column) && (sheet?.columns.length ?? 0) > 1 ? [] : [i])));
      reset();
    } catch (error) {
      message.textContent = `${name}: ${error instanceof Error ? error.message : error}`;
    }
    drawData();
  }

  /** @param {File[]} picked */
  async function setFiles(picked) {
    const pictures = picked.filter((file) => file.type.startsWith('image/'));
    if (pictures.length > 0) {
      sheet = null;
      files = pictures;
      sourceName = `${pictures.length} pictures`;
      reset();
      drawData();
    } else if (picked[0]) {
      setText(picked[0].name, await picked[0].text());
    }
  }

  function reset() {
    run.stop();
    rows = [];
    numDone = 0;
    numErrors = 0;
    results.hidden = true;
    drawPhase();
  }

  const file = h('input', { type: 'file', multiple: true, accept: '.csv,.tsv,.txt,.jsonl,.ndjson,.json,text/csv,image/*', id: newId(), class: 'hidden', onchange: () => {
    void setFiles([...(file.files ?? [])]);
    file.value = '';
  } });
  const paste = h('textarea', { rows: 4, placeholder: 'or paste rows here: CSV with a first line that names the columns, or a JSON value a line', 'aria-label': 'Rows as text', spellcheck: 'false', class: 'code',
    oninput: debounced(400, () => paste.value.trim() && setText('pasted rows', paste.value)) });

  function drawData() {
    const count = numRows();
    fill(dataPanel,
      h('div', { class: 'row wrap' },
        h('label', { class: 'button', for: file.id }, icon('picture'), 'Choose a file or pictures'), file,
        button('Take 12 sample tickets', () => setText('sample tickets', SAMPLE_CSV), { class: 'link' })),
      paste, message,
      count > 0 ? h('p', {}, h('strong', {}, `${count.toLocaleString('en')} ${sheet ? 'rows' : 'pictures'}`), ` from ${sourceName}`) : null,
      sheet ? h('fieldset', {}, h('legend', { class: 'label' }, 'What the model reads of a row'),
        h('div', { class: 'row wrap' }, ...sheet.columns.map((column, i) => {
          const check = h('input', { type: 'checkbox', id: newId(), checked: columns.has(i), onchange: () => {
            if (check.checked) columns.add(i);
            else columns.delete(i);
            drawExample();
          } });
          return h('span', { class: 'check' }, check, h('label', { for: check.id }, column));
        }))) : null,
      sheet ? example : null);
    drawExample();
    drawTally();
  }
  const example = h('pre', { class: 'example', tabindex: '0', 'aria-label': 'The first row as the model reads it' });
  function drawExample() {
    if (!sheet) return;
    const state = columns.size === 0 ? '' : stateOf(sheet, 0, [...columns].sort((a, b) => a - b));
    example.textContent = typeof state === 'string' ? state : writeJson(state, 2);
  }

  setup.append(h('summary', { class: 'heading' }, 'Rows and questions'),
    h('div', { class: 'setup-grid' }, h('section', { class: 'field', 'aria-label': 'Rows' }, h('span', { class: 'heading' }, 'Rows'), dataPanel), questions.element));
  fill(results,
    h('div', { class: 'results-head' }, threshold.element,
      h('div', { class: 'field' }, field('Find', search),
        h('div', { class: 'row wrap' }, button('CSV', () => exportRows('csv'), { icon: 'download', 'aria-label': 'Save as CSV' }), button('JSON lines', () => exportRows('jsonl'), { icon: 'download', 'aria-label': 'Save as JSON lines' })),
        h('p', { class: 'remark' }, 'Saves the rows that the filter shows.'))),
    table.element);
  drawData();
  drawPhase();

  const element = h('div', { class: 'view triage-view' },
    h('h1', { class: 'hidden' }, 'Triage'), setup,
    h('div', { class: 'run-bar' }, h('div', { class: 'row wrap' }, startButton, pauseButton, stopButton, retryButton, tally), bar),
    problem, results);
  element.addEventListener('dragover', (event) => event.preventDefault());
  element.addEventListener('drop', (event) => {
    event.preventDefault();
    void setFiles([...(event.dataTransfer?.files ?? [])]);
  });
  return { element, show: () => table.refresh() };
}
